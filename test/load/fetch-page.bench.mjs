/**
 * `fetch_page` against bare undici, one page after the other, of one server, in alternating rounds of one run:
 * `undici` fetches and reads the text; `guarded` is the way out with all its checks; `reader` adds robots.txt, charset and
 * the extraction in a child process; `http` is the tool through the whole fleet. Every call asks for another address.
 */
import { createServer } from 'node:http';
import { request } from 'undici';
import { BoundedWork, PageReader, Robots } from '@toolfleet/builtin-tools';
import { EgressClient } from '@toolfleet/egress';
import { SystemClock } from '@toolfleet/resilience';
import { withFleet } from './with-fleet.mjs';

const ROUNDS = Number(process.env.BENCH_ROUNDS ?? 3);
const PAGES = Number(process.env.BENCH_PAGES ?? 150);
/** About 50 kB, as articles are. */
const PARAGRAPH = `<p>The harbour was rebuilt in three stages, and <a href="/stage">each of them</a> changed how the town lived. ${'Local records mention storms, floods and a fire. '.repeat(6)}</p>`;
const PAGE = `<!doctype html><html lang="en"><head><title>The harbour</title></head><body><nav><a href="/">Home</a></nav><article><h1>The harbour</h1>${PARAGRAPH.repeat(120)}</article><footer>Copyright</footer></body></html>`;

export async function fetchPageBench(root) {
  const site = await startSite();
  const clock = new SystemClock();
  const egress = new EgressClient({ allowlist: [], allowedEndpoints: [site.origin], clock });
  const bounded = new BoundedWork(clock);
  const reader = new PageReader(egress, bounded, new Robots(egress, clock));
  const { signal } = new AbortController();
  let serial = 0;
  const address = () => `${site.origin}/page/${(serial += 1)}`;
  try {
    return await withFleet(
      root,
      async (fleet) => {
        const ways = {
          undici: async () => (await request(address())).body.text(),
          guarded: async () => (await egress.request({ url: address(), signal })).body.bytes(),
          reader: async () => reader.read(address(), 'text', { signal, tenant: 'bench' }),
          http: () => overHttp(fleet, address()),
        };
        for (const way of Object.values(ways)) await timed(way, 20);
        const rounds = [];
        for (let round = 0; round < ROUNDS; round += 1) {
          const results = {};
          for (const [name, way] of Object.entries(ways)) results[name] = await timed(way, PAGES);
          rounds.push(results);
        }
        return { name: 'fetch_page', page_bytes: PAGE.length, rounds };
      },
      { env: { EGRESS_ALLOWED_ENDPOINTS: site.origin } },
    );
  } finally {
    bounded.close();
    await egress.close();
    await site.stop();
  }
}

async function overHttp(fleet, url) {
  const { body } = await request(`${fleet.url}/api/v1/tools/fetch_page/execute`, {
    method: 'POST',
    headers: { authorization: `Bearer ${fleet.api_key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ arguments: { url } }),
  });
  const answer = await body.json();
  if (!answer.success) throw new Error(`fetch_page failed: ${JSON.stringify(answer).slice(0, 300)}`);
}

/** Median and p99 of one call after the other, in ms. */
async function timed(call, count) {
  const times = [];
  for (let n = 0; n < count; n += 1) {
    const startedAt = performance.now();
    await call();
    times.push(performance.now() - startedAt);
  }
  times.sort((a, b) => a - b);
  const at = (share) => Number(times[Math.min(times.length - 1, Math.floor(times.length * share))].toFixed(2));
  return { p50_ms: at(0.5), p99_ms: at(0.99) };
}

async function startSite() {
  const server = createServer((asked, response) => {
    const robots = asked.url === '/robots.txt';
    response.writeHead(200, { 'content-type': robots ? 'text/plain' : 'text/html; charset=utf-8' });
    response.end(robots ? 'User-agent: *\nDisallow: /private' : PAGE);
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    origin: `http://127.0.0.1:${server.address().port}`,
    stop: () =>
      new Promise((resolve) => {
        server.closeAllConnections();
        server.close(resolve);
      }),
  };
}
