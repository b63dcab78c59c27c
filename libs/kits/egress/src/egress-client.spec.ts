import { createServer, type RequestListener, type Server } from 'node:http';
import { connect, type AddressInfo, type Socket } from 'node:net';
import { brotliCompressSync, createGzip, deflateRawSync, deflateSync, gzipSync, zstdCompressSync } from 'node:zlib';
import { isCodedError, type CodedError } from '@toolfleet/base';
import { afterEach, describe, expect, it } from 'vitest';
import { Dialer, type DialTarget } from './connector.js';
import { EgressClient } from './egress-client.js';
import { egressFetch } from './egress-fetch.js';
import type { EgressOptions } from './egress-options.js';
import type { EgressTimeouts } from './request-timeouts.js';
import { Resolver } from './resolver.js';

const PUBLIC = '93.184.216.34';
const closers: (() => Promise<void> | void)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).toReversed()) await close();
});

/** Resolves every name to a public address, except those in `answers`. */
class FakeResolver extends Resolver {
  readonly asked: string[] = [];
  constructor(private readonly answers: Record<string, string[]> = {}) {
    super();
  }
  override async resolve(host: string): Promise<string[]> {
    this.asked.push(host);
    return this.answers[host] ?? [PUBLIC];
  }
}

/** Connects every address to the loopback server, without TLS. */
class ToServer extends Dialer {
  readonly dialed: DialTarget[] = [];
  constructor(private readonly port: number) {
    super();
  }
  override dial(target: DialTarget): Promise<Socket> {
    this.dialed.push(target);
    return new Promise((resolve, reject) => {
      const socket = connect(this.port, '127.0.0.1', () => resolve(socket)).once('error', reject);
    });
  }
}

/** Blocks the event loop, as a long computation would. */
function blockFor(ms: number): void {
  const until = performance.now() + ms;
  while (performance.now() < until);
}

async function serve(listener: RequestListener): Promise<number> {
  const server: Server = createServer(listener);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  closers.push(() => {
    server.closeAllConnections();
    return new Promise<void>((resolve) => server.close(() => resolve()));
  });
  return (server.address() as AddressInfo).port;
}

async function clientFor(listener: RequestListener, options: Partial<EgressOptions> = {}) {
  const dialer = new ToServer(await serve(listener));
  const resolver = new FakeResolver();
  const blocked: string[] = [];
  const client = new EgressClient({
    allowlist: ['api.example.com', '*.partner.example', 'http://plain.example.org:8080'],
    resolver,
    dialer,
    onBlocked: (layer, reason) => blocked.push(`${layer}:${reason}`),
    ...options,
  });
  closers.push(() => client.close());
  return { client, dialer, resolver, blocked };
}

async function failure(work: Promise<unknown>): Promise<CodedError> {
  const error = await work.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  if (!isCodedError(error)) throw new Error(`expected a CodedError, got ${String(error)}`, { cause: error });
  return error;
}

const text = async (client: EgressClient, url: string, more: object = {}) =>
  (await client.request({ url, ...more })).body.text();

describe('EgressClient', () => {
  it('returns status, headers and body of an allowed host', async () => {
    const { client, dialer } = await clientFor((request, response) => {
      response.setHeader('x-seen', `${request.method} ${request.url} ${request.headers.host}`);
      response.writeHead(201).end('hello');
    });
    const response = await client.request({ url: 'https://API.example.com./a?b=c' });
    expect(response.status).toBe(201);
    expect(response.headers['x-seen']).toBe('GET /a?b=c api.example.com');
    expect(await response.body.text()).toBe('hello');
    expect(dialer.dialed).toMatchObject([{ address: PUBLIC, port: 443, host: 'api.example.com' }]);
  });

  it.each([
    ['no answer', () => Promise.reject(new Error('ENOTFOUND'))],
    ['no address', async () => []],
  ])('says that a host name with %s in DNS cannot be resolved, and that nothing was delivered', async (_, resolve) => {
    const { client } = await clientFor((request, response) => response.end(), {
      resolver: Object.assign(new FakeResolver(), { resolve }),
    });
    expect(await failure(client.request({ url: 'https://api.example.com/' }))).toMatchObject({
      code: 'NETWORK_ERROR',
      message: 'The host name api.example.com cannot be resolved',
      details: { reason: 'dns', host: 'api.example.com' },
      facts: { delivered: false },
    });
  });

  it('sends a raw request target byte for byte', async () => {
    const { client } = await clientFor((request, response) => response.end(request.url));
    const target = '/a/../b/%2e%2E/{c}?q=%zz&x=a|b"c';
    const response = await client.request({ url: { origin: 'https://api.example.com', target } });
    expect(await response.body.text()).toBe(target);
  });

  it.each(['a', '//evil', '/a b', '/a\r\nX: y', '/a#b', '/é', '/a\\b'])('refuses the raw target %j', async (target) => {
    const { client } = await clientFor((_, response) => response.end());
    const sent = client.request({ url: { origin: 'https://api.example.com', target } });
    // "//evil" is a legal origin-form path: it names a path, never a host.
    if (target === '//evil') return void expect((await sent).status).toBe(200);
    expect((await failure(sent)).details).toMatchObject({ reason: 'request_target' });
  });

  it('allows plain HTTP and other ports only for entries that list them', async () => {
    const { client, blocked } = await clientFor((_, response) => response.end('ok'));
    expect(await text(client, 'http://plain.example.org:8080/')).toBe('ok');
    await failure(client.request({ url: 'http://api.example.com/' }));
    await failure(client.request({ url: 'https://api.example.com:8080/' }));
    expect(blocked).toEqual(['url:scheme', 'url:port']);
  });

  it('reuses connections and stays within the limits per host and in total', async () => {
    const { client, dialer } = await clientFor((_, response) => setImmediate(() => response.end('x')), {
      limits: { connectionsPerHost: 3, totalConnections: 4, keepAliveMs: 50 },
    });
    const hosts = ['api.example.com', 'a.partner.example', 'b.partner.example'];
    const calls = Array.from({ length: 90 }, (_, index) => text(client, `https://${hosts[index % 3]}/`));
    let most = 0;
    const watch = setInterval(() => (most = Math.max(most, client.openConnections)), 0);
    expect(new Set(await Promise.all(calls))).toEqual(new Set(['x']));
    clearInterval(watch);
    expect(most).toBeLessThanOrEqual(4);
    expect(dialer.dialed.length).toBeLessThan(90);
  });

  it('drops credentials on redirects to another origin and keeps them within one', async () => {
    const seen: (string | undefined)[] = [];
    const { client } = await clientFor((request, response) => {
      seen.push(request.headers.authorization ?? request.headers['x-api-key']?.toString());
      if (request.url === '/1') return response.writeHead(302, { location: '/2' }).end();
      if (request.url === '/2') return response.writeHead(307, { location: 'https://a.partner.example/3' }).end();
      return response.end('there');
    });
    const headers = { Authorization: 'Bearer s', 'X-API-Key': 'k', Cookie: 'c' };
    const response = await client.request({ url: 'https://api.example.com/1', headers });
    expect([await response.body.text(), response.redirects, response.url]).toEqual([
      'there',
      2,
      'https://a.partner.example/3',
    ]);
    expect(seen).toEqual(['Bearer s', 'Bearer s', undefined]);
  });

  it('keeps the limits and the cancellation of a request after a redirect', async () => {
    let arrived = (): void => undefined;
    const { client } = await clientFor((request, response) => {
      if (request.url === '/1') return response.writeHead(302, { location: '/hang' }).end();
      return arrived();
    });
    const sent = (more: object) => client.request({ url: 'https://api.example.com/1', ...more });
    const late = await failure(sent({ timeouts: { headersMs: null, totalMs: 300 } }));
    expect([late.code, late.details?.['phase']]).toEqual(['ATTEMPT_TIMED_OUT', 'total']);

    const caller = new AbortController();
    arrived = () => caller.abort();
    expect((await failure(sent({ signal: caller.signal }))).code).toBe('CANCELLED');
  });

  it('returns the redirect of a POST to the caller', async () => {
    const { client } = await clientFor((_, response) => response.writeHead(307, { location: '/x' }).end());
    expect((await client.request({ url: 'https://api.example.com/', method: 'POST', body: '{}' })).status).toBe(307);
  });

  it('stops an endless redirect after three hops', async () => {
    let hits = 0;
    const { client } = await clientFor((_, response) => {
      hits += 1;
      response.writeHead(302, { location: '/loop' }).end();
    });
    const error = await failure(client.request({ url: 'https://api.example.com/loop' }));
    expect([error.code, error.details?.['reason'], hits]).toEqual(['EGRESS_REFUSED', 'too_many_redirects', 4]);
  });

  it.each([
    ['gzip', gzipSync],
    ['deflate', deflateSync],
    ['deflate', deflateRawSync],
    ['br', brotliCompressSync],
    ['zstd', zstdCompressSync],
  ])('decodes %s', async (encoding, compress) => {
    const { client } = await clientFor((_, response) =>
      response.writeHead(200, { 'content-encoding': encoding }).end(compress(Buffer.from('héllo'.repeat(1000)))),
    );
    expect(await text(client, 'https://api.example.com/')).toBe('héllo'.repeat(1000));
  });

  it('reports corrupt and unknown encodings as NETWORK_ERROR', async () => {
    const { client } = await clientFor((request, response) => {
      const encoding = request.url === '/unknown' ? 'rot13' : 'gzip';
      response.writeHead(200, { 'content-encoding': encoding }).end('not compressed at all');
    });
    for (const path of ['/unknown', '/damaged']) {
      const error = await failure(text(client, `https://api.example.com${path}`));
      expect([error.code, error.details?.['reason']]).toEqual(['NETWORK_ERROR', 'content_encoding']);
    }
  });

  it('truncates instead of failing with onOverflow: truncate', async () => {
    const { client } = await clientFor((_, response) => response.end('x'.repeat(100_000)));
    const response = await client.request({ url: 'https://api.example.com/', maxBytes: 10, onOverflow: 'truncate' });
    expect([await response.body.text(), response.body.truncated]).toEqual(['x'.repeat(10), true]);
  });

  it('stops a gzip bomb and a 1 GB body with RESULT_TOO_LARGE and constant memory', async () => {
    const megabyte = Buffer.alloc(1024 * 1024);
    let sent = 0;
    const { client } = await clientFor((request, response) => {
      const bomb = request.url === '/bomb';
      response.writeHead(200, bomb ? { 'content-encoding': 'gzip' } : {});
      const sink = bomb ? createGzip({ level: 1 }) : response;
      if (bomb) (sink as ReturnType<typeof createGzip>).pipe(response);
      const pump = (left: number): void => {
        if (left === 0) return void sink.end();
        if (response.destroyed) return void sink.destroy();
        // A compressed bomb fits into the socket buffers; only the plain body shows that the client stopped the upstream.
        if (!bomb) sent += 1;
        if (sink.write(megabyte)) setImmediate(pump, left - 1);
        else sink.once('drain', () => pump(left - 1));
      };
      pump(1024);
    });
    const before = process.memoryUsage().rss;
    for (const path of ['/bomb', '/plain']) {
      const error = await failure(text(client, `https://api.example.com${path}`));
      expect(error.code).toBe('RESULT_TOO_LARGE');
    }
    const ratio = await failure(text(client, 'https://api.example.com/bomb', { maxBytes: 1024 ** 3 }));
    expect([ratio.code, ratio.details?.['what']]).toEqual(['RESULT_TOO_LARGE', 'ratio']);
    expect(process.memoryUsage().rss - before).toBeLessThan(200 * 1024 * 1024); // of 3 GB offered, with both sides in this process
    // The upstream was stopped, not drained: each body offered 1,024 MB, and buffers on the way hold some of it.
    expect(sent).toBeLessThan(1_024);
  });

  it('stops slow headers, a stalled body and a slow-loris body in time, and reports the phase', async () => {
    const { client } = await clientFor((request, response) => {
      if (request.url === '/headers') return;
      response.writeHead(200);
      response.write('a');
      if (request.url === '/drip') {
        const drip = setInterval(() => response.write('a'), 10);
        response.on('close', () => clearInterval(drip));
      }
    });
    const never = 60_000;
    const phase = async (path: string, timeouts: Partial<EgressTimeouts>) => {
      const limits = { headersMs: never, bodyIdleMs: never, totalMs: never, ...timeouts };
      const error = await failure(text(client, `https://api.example.com${path}`, { timeouts: limits }));
      return [error.code, error.details?.['phase']];
    };
    expect(await phase('/headers', { headersMs: 100 })).toEqual(['ATTEMPT_TIMED_OUT', 'headers']);
    expect(await phase('/stall', { bodyIdleMs: 100 })).toEqual(['ATTEMPT_TIMED_OUT', 'body']);
    expect(await phase('/drip', { bodyIdleMs: 200, totalMs: 600 })).toEqual(['ATTEMPT_TIMED_OUT', 'total']);
  });

  it('does not count a stall of its own process as silence of the server', async () => {
    const { client } = await clientFor((_, response) => {
      response.writeHead(200);
      let drops = 0;
      const drip = setInterval(() => {
        response.write('a');
        // Both ends are in this process: the next byte is sent in the same loop turn in which the idle limit has passed.
        if (drops++ === 5) setImmediate(() => blockFor(700));
      }, 10);
      response.on('close', () => clearInterval(drip));
    });
    const timeouts = { headersMs: 60_000, bodyIdleMs: 300, totalMs: 2_500 };
    const error = await failure(text(client, 'https://api.example.com/', { timeouts }));
    expect(error.details?.['phase']).toBe('total');
  });

  it('refuses oversized response headers', async () => {
    const { client } = await clientFor((_, response) => response.writeHead(200, { big: 'x'.repeat(60_000) }).end());
    expect((await failure(client.request({ url: 'https://api.example.com/' }))).code).toBe('RESULT_TOO_LARGE');
  });

  it('stops the upstream when the caller cancels', async () => {
    let closed: () => void;
    const upstreamClosed = new Promise<void>((resolve) => (closed = resolve));
    const { client } = await clientFor((_, response) => {
      response.on('close', closed);
      response.writeHead(200);
      response.write('a');
    });
    const caller = new AbortController();
    const response = await client.request({ url: 'https://api.example.com/', signal: caller.signal });
    const reading = failure(response.body.text());
    caller.abort();
    expect((await reading).code).toBe('CANCELLED');
    await upstreamClosed;
  });

  it('ends a request that waits for a connection at once when the caller cancels, and never sends it', async () => {
    const seen: (string | undefined)[] = [];
    let release = (): void => undefined;
    const { client } = await clientFor(
      (request, response) => {
        seen.push(request.url);
        if (request.url !== '/first') return response.end('ok');
        release = () => response.end('ok');
        return caller.abort();
      },
      { limits: { connectionsPerHost: 1 } },
    );
    const caller = new AbortController();
    const first = text(client, 'https://api.example.com/first');
    const waiting = client.request({ url: 'https://api.example.com/second', method: 'POST', signal: caller.signal });
    expect((await failure(waiting)).code).toBe('CANCELLED');
    release();
    expect(await first).toBe('ok');
    expect(await text(client, 'https://api.example.com/third')).toBe('ok');
    expect(seen).toEqual(['/first', '/third']);
  });

  it('pauses the upstream while nothing reads the body, and resumes it', async () => {
    const size = 64 * 1024 * 1024;
    let written = 0;
    const { client } = await clientFor((request, response) => {
      if (request.method === 'HEAD') return response.end();
      const piece = Buffer.alloc(1024 * 1024);
      const pump = (): void => {
        while (written < size) {
          written += piece.byteLength;
          if (!response.write(piece)) return void response.once('drain', pump);
        }
        response.end();
      };
      return pump();
    });
    const response = await client.request({ url: 'https://api.example.com/', maxBytes: size });
    for (let before = -1; before !== written;) {
      before = written;
      await text(client, 'https://api.example.com/', { method: 'HEAD' });
    }
    expect(written).toBeLessThan(size);
    expect((await response.body.bytes()).byteLength).toBe(size);
  });

  it('reports whether the request may have been delivered', async () => {
    const { client } = await clientFor((request) => request.socket.destroy());
    const broken = await failure(client.request({ url: 'https://api.example.com/', method: 'POST', body: '{}' }));
    expect([broken.code, broken.facts?.delivered]).toEqual(['NETWORK_ERROR', true]);

    const refused = new EgressClient({
      allowlist: ['api.example.com'],
      resolver: new FakeResolver(),
      dialer: new ToServer(1),
    });
    closers.push(() => refused.close());
    const never = await failure(refused.request({ url: 'https://api.example.com/', method: 'POST', body: '{}' }));
    expect([never.code, never.facts?.delivered, never.details?.['reason']]).toEqual([
      'NETWORK_ERROR',
      false,
      'ECONNREFUSED',
    ]);
  });

  it.each(['Host', 'Transfer-Encoding', 'Upgrade', 'X-A\r\nX-B'])('refuses the header %j', async (name) => {
    const { client } = await clientFor((_, response) => response.end());
    const error = await failure(client.request({ url: 'https://api.example.com/', headers: { [name]: 'x' } }));
    expect(error.details).toMatchObject({ reason: 'header' });
  });

  it('reaches exactly the allowed endpoint on loopback and no other', async () => {
    const port = await serve((_, response) => response.end('sample'));
    const other = await serve((_, response) => response.end('secret'));
    const client = new EgressClient({ allowlist: [], allowedEndpoints: [`http://127.0.0.1:${port}`] });
    closers.push(() => client.close());
    expect(await text(client, `http://127.0.0.1:${port}/x`)).toBe('sample');
    for (const url of [`http://127.0.0.1:${other}/`, `http://localhost:${port}/`, `https://127.0.0.1:${port}/`]) {
      expect((await failure(client.request({ url }))).code).toBe('EGRESS_REFUSED');
    }
  });

  it('requires a flag for the allowlist "*" and still guards names and addresses', async () => {
    expect(() => new EgressClient({ allowlist: ['*'] })).toThrow(/development/);
    const { client, blocked } = await clientFor((_, response) => response.end('ok'), {
      allowlist: ['*'],
      allowAnyHost: true,
      resolver: new FakeResolver({ 'inside.example.net': ['10.0.0.1'] }),
    });
    expect(await text(client, 'https://anything.example.net/')).toBe('ok');
    for (const url of [
      'https://10.0.0.1/',
      'https://localhost/',
      'https://x.svc.cluster.local/',
      'https://inside.example.net/',
    ]) {
      await failure(client.request({ url }));
    }
    expect(blocked).toEqual(['url:ip_literal', 'url:internal_name', 'url:internal_name', 'connect:address']);
  });
});

describe('egressFetch', () => {
  it('supports what libraries use: forms, streams, manual redirects, abort', async () => {
    const { client } = await clientFor(async (request, response) => {
      if (request.url === '/moved') return response.writeHead(302, { location: '/' }).end();
      if (request.url === '/hang') return;
      const chunks: Buffer[] = [];
      for await (const chunk of request) chunks.push(chunk as Buffer);
      response.writeHead(200, { 'content-type': 'application/json', 'content-encoding': 'gzip' });
      return response.end(
        gzipSync(JSON.stringify([request.method, request.headers['content-type'], Buffer.concat(chunks).toString()])),
      );
    });
    const fetch = egressFetch(client);
    const form = await fetch('https://api.example.com/#frag', {
      method: 'POST',
      body: new URLSearchParams({ a: 'b c' }),
    });
    expect(await form.json()).toEqual(['POST', 'application/x-www-form-urlencoded;charset=UTF-8', 'a=b+c']);
    const manual = await fetch('https://api.example.com/moved', { redirect: 'manual' });
    expect([manual.status, manual.headers.get('location')]).toEqual([302, '/']);
    await manual.body?.cancel();

    const abort = new AbortController();
    const hanging = fetch('https://api.example.com/hang', { signal: abort.signal });
    abort.abort();
    await expect(hanging).rejects.toMatchObject({ name: 'AbortError' });
    await expect(fetch('https://evil.test/')).rejects.toMatchObject({ code: 'EGRESS_REFUSED' });
  });
});
