/** The paths of a call that are measured, and a fleet with the upstreams that they end at. */
import { fork } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { freePort } from '../../tools/local/child-process.mjs';
import { withFleet } from './with-fleet.mjs';

const TOOLS_WITHIN_MS = 30_000;

/** Tool, and the arguments of the n-th call. */
export const PATHS = {
  calculator: ['calculator', (n) => ({ expression: `${n} * 2` })],
  'MCP over HTTP': ['effects_say', (n) => ({ text: `call ${n}` })],
  'MCP over HTTP, trusted and read-only': ['trusted_say', (n) => ({ text: `call ${n}` })],
  'MCP over stdio': ['local_say', (n) => ({ text: `call ${n}` })],
  'OpenAPI GET': ['api_getItem', (n) => ({ id: `${n}` })],
  'OpenAPI POST': ['api_createItem', (n) => ({ body: { text: `call ${n}` } })],
  execute_python: ['execute_python', (n) => ({ code: `print(${n})` })],
  'program with one call': [
    'run_program',
    (n) => ({ code: 'tools.calculator(expression=inputs[0])["result"]', inputs: [`${n} * 3`] }),
  ],
};

/** The call at each entry point, and a text of its successful answer. */
export const ENTRY_POINTS = {
  http: {
    path: (tool) => `/api/v1/tools/${tool}/execute`,
    body: (_tool, args) => ({ arguments: args }),
    good: '"success":true',
  },
  mcp: {
    path: () => '/mcp',
    headers: { accept: 'application/json, text/event-stream', 'mcp-protocol-version': '2025-11-25' },
    body: (tool, args) => ({ jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: tool, arguments: args } }),
    good: '"isError":false',
  },
  nats: { body: (tool, args) => ({ name: tool, arguments: args }), good: '"success":true' },
};

/**
 * Starts a fleet with a tool for each path, hands it to `bench` with the upstream, and stops both.
 * @param {string} root of the repository
 * @param {(fleet: object, upstream: {pid: number, origin: string}) => Promise<any>} bench
 * @param {Record<string, string>} [env] of the services
 */
export async function withPaths(root, bench, env = {}) {
  const echo = join(root, 'test/load/echo-upstream.mjs');
  const port = await freePort();
  const upstream = fork(echo, ['http', String(port)]);
  await new Promise((resolve) => upstream.once('message', resolve));
  const origin = `http://127.0.0.1:${port}`;
  const dir = mkdtempSync(join(tmpdir(), 'toolfleet-paths-'));
  const config = join(dir, 'sources.yaml');
  writeFileSync(config, JSON.stringify(sources(origin, echo)));
  const run = async (fleet) => {
    await untilListed(fleet);
    return bench(fleet, { pid: upstream.pid, origin });
  };
  try {
    return await withFleet(root, run, { env: { ...env, EGRESS_ALLOWED_ENDPOINTS: origin }, config });
  } finally {
    upstream.kill('SIGKILL');
    rmSync(dir, { recursive: true, force: true });
  }
}

/** The same echo server as three sources, and its API. */
function sources(origin, echo) {
  const unlimited = { rate_limit: 0 };
  return {
    mcp_servers: {
      effects: { url: `${origin}/mcp`, ...unlimited },
      trusted: { url: `${origin}/mcp`, trusted: true, ...unlimited },
      local: { command: process.execPath, args: [echo, 'stdio'], ...unlimited },
    },
    openapi_tools: {
      api: {
        enabled: true,
        spec_url: `${origin}/openapi.json`,
        base_url: origin,
        category: 'bench',
        name_prefix: 'api_',
        auth_type: 'none',
        ...unlimited,
      },
    },
  };
}

async function untilListed({ url, api_key: key }) {
  const wanted = Object.values(PATHS).map(([tool]) => tool);
  for (const until = Date.now() + TOOLS_WITHIN_MS; ; await sleep(200)) {
    const listed = await (await fetch(`${url}/tools/list`, { headers: { authorization: `Bearer ${key}` } })).json();
    const missing = wanted.filter((name) => !listed.includes(name));
    if (missing.length === 0) return;
    if (Date.now() > until) throw new Error(`not listed: ${missing.join(', ')}`);
  }
}
