import { createHash, createHmac, timingSafeEqual } from 'node:crypto';
import type { IncomingMessage } from 'node:http';

/** The one key of the bucket. */
export const S3_KEY = { id: 'key', secret: 'secret' } as const;

/**
 * True when a request is signed as AWS Signature Version 4 asks (docs.aws.amazon.com, "Create a signed AWS API request"), computed
 * from the request as it arrived, so that a wrong encoding of a path fails here before it fails on a real server.
 */
export function isSigned(request: IncomingMessage, body: Buffer): boolean {
  const [, credential, signedHeaders, signature] =
    /^AWS4-HMAC-SHA256 Credential=([^,]+), ?SignedHeaders=([^,]+), ?Signature=([0-9a-f]{64})$/.exec(
      request.headers.authorization ?? '',
    ) ?? [];
  if (!credential || !signedHeaders || !signature) return false;
  const [id, date = '', region = '', service = '', end] = credential.split('/');
  const hash = String(request.headers['x-amz-content-sha256']);
  if (id !== S3_KEY.id || service !== 's3' || end !== 'aws4_request') return false;
  if (hash !== 'UNSIGNED-PAYLOAD' && hash !== sha256(body)) return false;
  const names = signedHeaders.split(';');
  if (!names.includes('host') || !names.includes('x-amz-date')) return false;
  const [path = '/', query = ''] = (request.url ?? '/').split('?');
  const canonical = [
    request.method,
    strict(path),
    query.split('&').filter(Boolean).map(encoded).toSorted().join('&'),
    ...names.map((name) => `${name}:${String(request.headers[name]).trim().replaceAll(/ +/g, ' ')}`),
    '',
    signedHeaders,
    hash,
  ].join('\n');
  const scope = `${date}/${region}/${service}/${end}`;
  const text = ['AWS4-HMAC-SHA256', request.headers['x-amz-date'], scope, sha256(canonical)].join('\n');
  const key = [date, region, service, end].reduce<Buffer | string>(
    (last, part) => hmac(last, part),
    `AWS4${S3_KEY.secret}`,
  );
  return timingSafeEqual(hmac(key, text), Buffer.from(signature, 'hex'));
}

/** `/` between segments, every octet but the unreserved ones as %XX. */
const strict = (path: string): string => path.split('/').map(segment).join('/');
const segment = (text: string): string =>
  encodeURIComponent(decodeURIComponent(text)).replaceAll(
    /[!'()*]/g,
    (sign) => `%${sign.charCodeAt(0).toString(16).toUpperCase()}`,
  );
const encoded = (pair: string): string => {
  const [name = '', value = ''] = pair.split('=');
  return `${segment(name)}=${segment(value.replaceAll('+', ' '))}`;
};
const hmac = (key: Buffer | string, text: string): Buffer => createHmac('sha256', key).update(text).digest();
const sha256 = (data: Buffer | string): string => createHash('sha256').update(data).digest('hex');
