/**
 * The same builtin tool on a running fleet through three doors: the HTTP Tools API and `/mcp` of both eras, each call with
 * arguments of its own, in alternating rounds. Only ratios within one run are meant.
 */
import { load } from '../load/measure.mjs';
import { withFleet } from '../load/with-fleet.mjs';

const ROUNDS = 3;
const SECONDS = 4;
const CONNECTIONS = 32;
const TOOL = 'calculator';
const VERSION = '2026-07-28';

/** What one call of each door looks like; `n` makes it a new one. */
const DOORS = {
  http: {
    path: `/api/v1/tools/${TOOL}/execute`,
    headers: {},
    body: (args) => ({ arguments: args }),
    good: '"success":true',
  },
  'mcp 2026': {
    path: '/mcp',
    headers: {
      accept: 'application/json, text/event-stream',
      'mcp-protocol-version': VERSION,
      'mcp-method': 'tools/call',
      'mcp-name': TOOL,
    },
    body: (args) =>
      toolsCall(args, {
        'io.modelcontextprotocol/protocolVersion': VERSION,
        'io.modelcontextprotocol/clientCapabilities': {},
      }),
    good: '"isError":false',
  },
  'mcp 2025': {
    path: '/mcp',
    headers: { accept: 'application/json, text/event-stream', 'mcp-protocol-version': '2025-11-25' },
    body: (args) => toolsCall(args),
    good: '"isError":false',
  },
};

function toolsCall(args, meta) {
  const params = { name: TOOL, arguments: args, ...(meta ? { _meta: meta } : {}) };
  return { jsonrpc: '2.0', id: 1, method: 'tools/call', params };
}

/** Prints calls per second of each door and their ratio to the HTTP door. */
export function compareDoors(root) {
  return withFleet(root, async (fleet) => {
    const gateway = fleet.services.find(({ name }) => name === 'gateway').pid;
    const run = (door, seconds) => {
      const { path, headers, body, good } = DOORS[door];
      return load({
        url: fleet.url + path,
        headers: { ...headers, authorization: `Bearer ${fleet.api_key}` },
        bodyOf: (n) => JSON.stringify(body({ expression: `${n} * 2 + ${door.length}` })),
        good,
        connections: CONNECTIONS,
        seconds,
        processes: { gateway },
      });
    };
    const rounds = Object.fromEntries(Object.keys(DOORS).map((door) => [door, []]));
    for (const door of Object.keys(DOORS)) await run(door, 2);
    for (let round = 0; round < ROUNDS; round += 1) {
      for (const door of Object.keys(DOORS)) rounds[door].push(await run(door, SECONDS));
    }
    const median = (door, of) => rounds[door].map(of).toSorted((a, b) => a - b)[Math.floor(ROUNDS / 2)];
    const rate = (door) => median(door, (one) => one.calls_per_second);
    for (const door of Object.keys(DOORS)) {
      const cpu = median(door, (one) => one.cpu_us_per_call.gateway);
      const ratio = (rate(door) / rate('http')).toFixed(2);
      console.log(`${TOOL} over ${door}: ${rate(door)}/s, ${ratio} of http, gateway ${cpu} us of CPU per call`);
    }
  });
}
