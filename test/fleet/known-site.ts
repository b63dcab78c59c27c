/** A web site of the test's own, and a forbidden server next to it that counts its requests. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

/** The two servers. */
export interface KnownSite {
  /** Origin the fleet may read: `/article`, `/private` (robots.txt forbids it), `/away` (leads to the forbidden one). */
  readonly origin: string;
  /** The forbidden origin. */
  readonly forbidden: string;
  /** Requests that reached the forbidden one. */
  readonly trespasses: () => number;
  stop(): Promise<void>;
}

const SENTENCE = 'The harbour was rebuilt in three stages, and each of them changed how the town lived.';
const ARTICLE = `<!doctype html><html lang="en"><head><title>The harbour</title></head><body>
<nav><a href="/news">News</a></nav><article><h1>The harbour</h1>${`<p>${SENTENCE}</p>`.repeat(8)}</article></body></html>`;

/** Starts both on free loopback ports. */
export async function startKnownSite(): Promise<KnownSite> {
  let trespasses = 0;
  const forbidden = await listening(() => {
    trespasses += 1;
    return [200, {}, 'top secret'];
  });
  const site = await listening((request) => {
    if (request.url === '/robots.txt')
      return [200, { 'content-type': 'text/plain' }, 'User-agent: *\nDisallow: /private'];
    if (request.url === '/article') return [200, { 'content-type': 'text/html; charset=utf-8' }, ARTICLE];
    if (request.url === '/away') return [302, { location: `${forbidden.origin}/secret` }, ''];
    if (request.url === '/private') return [200, { 'content-type': 'text/html' }, '<p>private</p>'];
    return [404, { 'content-type': 'text/plain' }, 'Nothing here'];
  });
  return {
    origin: site.origin,
    forbidden: forbidden.origin,
    trespasses: () => trespasses,
    stop: async () => {
      await Promise.all([site.stop(), forbidden.stop()]);
    },
  };
}

type Reply = [status: number, headers: Record<string, string>, body: string];

async function listening(answer: (request: IncomingMessage) => Reply) {
  const server: Server = createServer((request: IncomingMessage, response: ServerResponse) => {
    const [status, headers, body] = answer(request);
    response.writeHead(status, headers).end(body);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    stop: () =>
      new Promise((resolve) => {
        server.closeAllConnections();
        server.close(resolve);
      }),
  };
}
