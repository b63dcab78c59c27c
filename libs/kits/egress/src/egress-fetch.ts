import { Readable } from 'node:stream';
import type { EgressClient } from './egress-client.js';
import type { EgressRequest, EgressResponse } from './egress-options.js';

/** Limits for each request that a library sends through `egressFetch`. */
type FetchLimits = Pick<EgressRequest, 'timeouts' | 'maxBytes'> & {
  /** Called with the error of a body that failed while streaming; libraries tend to hide it. */
  onBodyError?: (error: unknown) => void;
  /** Replaces the response before the library gets it. */
  onResponse?: (response: EgressResponse) => Promise<FetchedResponse>;
};

/** A response with a replaceable body. */
export type FetchedResponse = Omit<EgressResponse, 'body'> & {
  body: AsyncIterable<Uint8Array> & Pick<EgressResponse['body'], 'cancel'>;
};

/** Statuses of responses without a body (Fetch standard, "null body status"). */
const NULL_BODY = new Set([101, 103, 204, 205, 304]);

/**
 * Wraps an EgressClient as a `fetch` for libraries that expect one (MCP SDK, jose); all rules of the client apply. Unlike
 * the Fetch standard it has no cookies, cache or CORS, and rejects with CodedErrors. An abort rejects with the signal's
 * reason.
 * @param limits fixed, or chosen per request; a long-lived event stream has no total time limit
 */
export function egressFetch(
  client: EgressClient,
  limits: FetchLimits | ((url: string, init: RequestInit) => FetchLimits) = {},
): typeof fetch {
  return async (input, init = {}) => {
    const request = input instanceof Request ? input : undefined;
    const url = request ? request.url : String(input);
    const signal = init.signal ?? request?.signal ?? undefined;
    const headers = new Headers(init.headers ?? request?.headers);
    const { onBodyError, onResponse, ...caps } = typeof limits === 'function' ? limits(url, init) : limits;
    const body = await toBody(init.body ?? (request && request.body ? await request.arrayBuffer() : null), headers);
    try {
      const response = await client.request({
        url: url.split('#', 1)[0] ?? url,
        method: init.method ?? request?.method ?? 'GET',
        headers: Object.fromEntries(headers),
        body,
        followRedirects: (init.redirect ?? request?.redirect ?? 'follow') === 'follow',
        ...caps,
        signal,
      });
      return toFetchResponse(onResponse ? await onResponse(response) : response, onBodyError);
    } catch (error) {
      if (signal?.aborted) throw signal.reason;
      throw error;
    }
  };
}

/** A response as `egressFetch` gives it, for a library that takes over an exchange. */
export function toFetchResponse(response: FetchedResponse, onBodyError?: (error: unknown) => void): Response {
  const hasBody = !NULL_BODY.has(response.status);
  if (!hasBody) response.body.cancel();
  const result = new Response(hasBody ? toStream(response.body, onBodyError) : null, {
    status: response.status,
    statusText: response.statusText,
    headers: headerPairs(response.headers),
  });
  Object.defineProperty(result, 'url', { value: response.url });
  Object.defineProperty(result, 'redirected', { value: response.redirects > 0 });
  return result;
}

async function toBody(
  body: RequestInit['body'] | ArrayBuffer,
  headers: Headers,
): Promise<string | Uint8Array | Readable | null> {
  if (body === null || body === undefined || typeof body === 'string') return body ?? null;
  if (body instanceof ReadableStream) return Readable.fromWeb(body as import('node:stream/web').ReadableStream);
  // URLSearchParams, FormData, Blob and buffers: Response encodes them and knows their content type. The cast satisfies its types.
  const encoded = new Response(body as string);
  const type = encoded.headers.get('content-type');
  if (type && !headers.has('content-type')) headers.set('content-type', type);
  return new Uint8Array(await encoded.arrayBuffer());
}

function toStream(
  body: FetchedResponse['body'],
  onError: (error: unknown) => void = () => undefined,
): ReadableStream<Uint8Array> {
  const chunks = body[Symbol.asyncIterator]();
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        try {
          const next = await chunks.next();
          if (next.done) controller.close();
          else controller.enqueue(next.value);
        } catch (error) {
          onError(error);
          throw error;
        }
      },
      cancel() {
        body.cancel();
      },
    },
    { highWaterMark: 0 },
  );
}

function headerPairs(headers: Readonly<Record<string, string | string[] | undefined>>): [string, string][] {
  const pairs: [string, string][] = [];
  for (const [name, value] of Object.entries(headers)) {
    // The body is already decoded: a reader must not decode it again or rely on its length.
    if (value === undefined || name === 'content-encoding' || name === 'content-length') continue;
    for (const item of Array.isArray(value) ? value : [value]) pairs.push([name, item]);
  }
  return pairs;
}
