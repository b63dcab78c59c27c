/**
 * The same builtin tool on a running fleet through the HTTP Tools API and through `/mcp` in both protocol revisions, each call
 * with its own arguments, in alternating rounds. Each revision runs twice: as plain requests, which the fast path answers,
 * and with one more parameter (`x`), which the SDK ignores but which makes the fast path decline the request. Only ratios
 * within one run are meaningful.
 */
import { load } from '../load/measure.mjs';
import { withFleet } from '../load/with-fleet.mjs';

const ROUNDS = Number(process.env.BENCH_ROUNDS ?? 3);
const SECONDS = 4;
const CONNECTIONS = 32;
const TOOL = 'calculator';
const MODERN = '2026-07-28';
const ACCEPT = { accept: 'application/json, text/event-stream' };

function mcp(headers, meta, more = {}) {
  return {
    path: '/mcp',
    headers: { ...ACCEPT, ...headers },
    body: (args) => ({
      jsonrpc: '2.0',
      id: 1,
      method: 'tools/call',
      params: { name: TOOL, arguments: args, _meta: meta, ...more },
    }),
    good: '"isError":false',
  };
}

const modern = [
  { 'mcp-protocol-version': MODERN, 'mcp-method': 'tools/call', 'mcp-name': TOOL },
  { 'io.modelcontextprotocol/protocolVersion': MODERN, 'io.modelcontextprotocol/clientCapabilities': {} },
];
const legacy = [{ 'mcp-protocol-version': '2025-11-25' }];

/** What one call looks like on each way in. */
const WAYS = {
  http: {
    path: `/api/v1/tools/${TOOL}/execute`,
    headers: {},
    body: (args) => ({ arguments: args }),
    good: '"success":true',
  },
  'mcp 2026, fast path': mcp(...modern),
  'mcp 2026, SDK': mcp(...modern, { x: 1 }),
  'mcp 2025, fast path': mcp(...legacy),
  'mcp 2025, SDK': mcp(...legacy, undefined, { x: 1 }),
};

/** Prints calls per second, latency and gateway CPU of each way, and the ratio of its rate to that of HTTP. */
export function compareEntryPoints(root) {
  return withFleet(root, async (fleet) => {
    const gateway = fleet.services.find(({ name }) => name === 'gateway').pid;
    const names = Object.keys(WAYS);
    const run = (name, seconds) => {
      const { path, headers, body, good } = WAYS[name];
      return load({
        url: fleet.url + path,
        headers: { ...headers, authorization: `Bearer ${fleet.api_key}` },
        bodyOf: (n) => JSON.stringify(body({ expression: `${n} * 2 + ${names.indexOf(name)}` })),
        good,
        connections: CONNECTIONS,
        seconds,
        processes: { gateway },
      });
    };
    const rounds = Object.fromEntries(names.map((name) => [name, []]));
    for (const name of names) await run(name, 2);
    for (let round = 0; round < ROUNDS; round += 1) {
      for (const name of names) rounds[name].push(await run(name, SECONDS));
    }
    const median = (name, read) => rounds[name].map(read).toSorted((a, b) => a - b)[Math.floor(ROUNDS / 2)];
    const rate = (name) => median(name, (one) => one.calls_per_second);
    for (const name of names) {
      const cpu = median(name, (one) => one.cpu_us_per_call.gateway);
      const p50 = median(name, (one) => one.p50_ms);
      const ratio = (rate(name) / rate('http')).toFixed(2);
      console.log(
        `${TOOL} over ${name}: ${rate(name)}/s, ${ratio} of http, p50 ${p50} ms, gateway ${cpu} us of CPU per call`,
      );
    }
  });
}

if (process.argv[1] === import.meta.filename) await compareEntryPoints(`${import.meta.dirname}/../..`);
