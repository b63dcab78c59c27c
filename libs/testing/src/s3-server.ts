import { createHash } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { SystemClock } from '@toolfleet/resilience';
import { isSigned } from './s3-signature.js';

const clock = new SystemClock();

interface StoredObject {
  bytes: Buffer;
  etag: string;
  modifiedAt: Date;
}

/** A bucket in memory that speaks the part of S3's protocol the store uses, over real HTTP; checks every signature. */
export async function startS3(
  pageSize = 1_000,
  keepsConditions = true,
): Promise<{ endpoint: string; objects: Map<string, StoredObject>; stop: () => Promise<void> }> {
  const objects = new Map<string, StoredObject>();
  const server = createServer(
    (request, response) => void answer(request, response, objects, pageSize, keepsConditions),
  );
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return {
    endpoint: `http://127.0.0.1:${port}`,
    objects,
    stop: () =>
      new Promise((resolve) => {
        server.closeAllConnections();
        server.close(() => resolve());
      }),
  };
}

async function answer(
  request: IncomingMessage,
  response: ServerResponse,
  objects: Map<string, StoredObject>,
  pageSize: number,
  keepsConditions: boolean,
): Promise<void> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  const url = new URL(request.url ?? '/', 'http://s3');
  const bytes = Buffer.concat(chunks);
  if (!isSigned(request, bytes)) return end(response, 403);
  const key = decodeURIComponent(url.pathname).replace(/^\/bucket\/?/, '');
  const present = objects.get(key);
  if (key === '') return list(response, url.searchParams, objects, pageSize);
  if (request.method === 'PUT') {
    const { 'if-none-match': unless, 'if-match': only } = keepsConditions ? request.headers : {};
    if (unless === '*' && present) return end(response, 412);
    if (only && only !== present?.etag) return end(response, 412);
    objects.set(key, {
      bytes,
      etag: `"${createHash('md5').update(bytes).digest('hex')}"`,
      modifiedAt: new Date(clock.now()),
    });
    return end(response, 200);
  }
  if (!present) return end(response, 404);
  if (request.method === 'DELETE') {
    objects.delete(key);
    return end(response, 204);
  }
  response.writeHead(200, {
    'content-length': present.bytes.length,
    etag: present.etag,
    'last-modified': present.modifiedAt.toUTCString(),
  });
  response.end(request.method === 'HEAD' ? undefined : present.bytes);
}

function list(
  response: ServerResponse,
  query: URLSearchParams,
  objects: Map<string, StoredObject>,
  pageSize: number,
): void {
  const after = query.get('continuation-token') ?? '';
  const matching = [...objects]
    .filter(([key]) => key.startsWith(query.get('prefix') ?? '') && key > after)
    .toSorted(([a], [b]) => (a < b ? -1 : 1));
  const page = matching.slice(0, Math.min(Number(query.get('max-keys') ?? 1_000), pageSize));
  const contents = page.map(
    ([key, one]) =>
      `<Contents><Key>${escape(key)}</Key><Size>${one.bytes.length}</Size><LastModified>${one.modifiedAt.toISOString()}</LastModified></Contents>`,
  );
  const next =
    page.length < matching.length
      ? `<NextContinuationToken>${escape(page.at(-1)?.[0] ?? '')}</NextContinuationToken>`
      : '';
  response.writeHead(200, { 'content-type': 'application/xml' });
  response.end(
    `<?xml version="1.0" encoding="UTF-8"?>\n<ListBucketResult>${contents.join('')}${next}</ListBucketResult>`,
  );
}

function escape(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}

function end(response: ServerResponse, status: number): void {
  response.writeHead(status);
  response.end();
}
