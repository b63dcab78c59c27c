import { Readable } from 'node:stream';
import type { EgressClient } from './egress-client.js';
import type { EgressRequest } from './egress-options.js';

/** Limits of every request a library sends through `egressFetch`. */
export type FetchLimits = Pick<EgressRequest, 'timeouts' | 'maxBytes'> & {
  /** Told what broke a body that was already streaming; libraries tend to hide it. */
  onBodyError?: (error: unknown) => void;
};

/** Statuses whose responses have no body (Fetch standard, "null body status"). */
const NULL_BODY = new Set([101, 103, 204, 205, 304]);

/**
 * A `fetch` for libraries that want one (MCP SDK, jose). Same path as `request`, so every rule holds; it is not built on
 * another HTTP client. Known differences from the standard: no cookies, no cache, no CORS; errors of the guard are
 * rejections with a ToolError, an abort rejects with the signal's reason.
 * @param limits fixed, or chosen per request (a long-lived event stream has no total time)
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
    const { onBodyError, ...caps } = typeof limits === 'function' ? limits(url, init) : limits;
    const body = await bodyOf(init.body ?? (request && request.body ? await request.arrayBuffer() : null), headers);
    try {
      const response = await client.request({
        url: url.split('#', 1)[0] ?? url,
        method: init.method ?? request?.method ?? 'GET',
        headers: Object.fromEntries(headers),
        body,
        followRedirects: (init.redirect ?? request?.redirect ?? 'follow') === 'follow',
        ...caps,
        ...(signal ? { signal } : {}),
      });
      const answer = new Response(
        NULL_BODY.has(response.status) ? discard(response.body) : streamOf(response.body, onBodyError),
        {
          status: response.status,
          statusText: response.statusText,
          headers: headerPairs(response.headers),
        },
      );
      Object.defineProperty(answer, 'url', { value: response.url });
      Object.defineProperty(answer, 'redirected', { value: response.redirects > 0 });
      return answer;
    } catch (error) {
      if (signal?.aborted) throw signal.reason;
      throw error;
    }
  };
}

async function bodyOf(
  body: RequestInit['body'] | ArrayBuffer,
  headers: Headers,
): Promise<string | Uint8Array | Readable | null> {
  if (body === null || body === undefined || typeof body === 'string') return body ?? null;
  if (body instanceof ReadableStream) return Readable.fromWeb(body as import('node:stream/web').ReadableStream);
  // The cast is only for the type of the constructor. URLSearchParams, FormData, Blob, buffers: the platform knows their bytes and content type.
  const encoded = new Response(body as string);
  const type = encoded.headers.get('content-type');
  if (type && !headers.has('content-type')) headers.set('content-type', type);
  return new Uint8Array(await encoded.arrayBuffer());
}

function discard(body: { cancel(): void }): null {
  body.cancel();
  return null;
}

function streamOf(
  body: AsyncIterable<Uint8Array> & { cancel(): void },
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
    // The body is decoded already; a reader must neither decode nor count again.
    if (value === undefined || name === 'content-encoding' || name === 'content-length') continue;
    for (const item of Array.isArray(value) ? value : [value]) pairs.push([name, item]);
  }
  return pairs;
}
