/**
 * `node test/mcp/bench.mjs`: calls per second of `tools/call` and `tools/list` through the gateway's MCP endpoint and through
 * the SDK's bare low-level server, in both protocol revisions, with 10, 200 and 2,000 tools. Only ratios within one run are meaningful.
 * `npm run bench -- paths` measures the entry points of a whole fleet.
 */
import { fork } from 'node:child_process';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Agent, request } from 'undici';

const here = dirname(fileURLToPath(import.meta.url));
const CONNECTIONS = 8;
const ROUND_MS = Number(process.env.BENCH_MS ?? 1_500);
const VERSION = '2026-07-28';

async function start(kind, count) {
  const child = fork(join(here, 'bench-server.mjs'), [kind, String(count)], {
    stdio: ['ignore', 'pipe', 'inherit', 'ipc'],
  });
  const port = await new Promise((resolve) =>
    child.stdout.once('data', (chunk) => resolve(JSON.parse(String(chunk)).port)),
  );
  return { child, url: `http://127.0.0.1:${port}/mcp` };
}

function message(method, modern) {
  const params = method === 'tools/call' ? { name: 'tool_0003', arguments: { text: 'hello' } } : {};
  const meta = { 'io.modelcontextprotocol/protocolVersion': VERSION, 'io.modelcontextprotocol/clientCapabilities': {} };
  const headers = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' };
  if (!modern)
    return {
      headers: { ...headers, 'mcp-protocol-version': '2025-11-25' },
      body: { jsonrpc: '2.0', id: 1, method, params },
    };
  return {
    headers: {
      ...headers,
      'mcp-protocol-version': VERSION,
      'mcp-method': method,
      ...(params.name ? { 'mcp-name': params.name } : {}),
    },
    body: { jsonrpc: '2.0', id: 1, method, params: { ...params, _meta: meta } },
  };
}

async function rate(url, { headers, body }) {
  const dispatcher = new Agent({ connections: CONNECTIONS, pipelining: 1 });
  const text = JSON.stringify(body);
  let done = 0;
  const until = performance.now() + ROUND_MS;
  const worker = async () => {
    while (performance.now() < until) {
      const response = await request(url, { method: 'POST', headers, body: text, dispatcher });
      const answer = await response.body.text();
      if (response.statusCode !== 200 || answer.includes('"error"')) throw new Error(answer.slice(0, 300));
      done += 1;
    }
  };
  await Promise.all(Array.from({ length: CONNECTIONS }, worker));
  await dispatcher.close();
  return (done / ROUND_MS) * 1_000;
}

for (const count of [10, 200, 2_000]) {
  const servers = { bare: await start('bare', count), endpoint: await start('endpoint', count) };
  for (const modern of [true, false]) {
    for (const method of ['tools/call', 'tools/list']) {
      const rates = { bare: [], endpoint: [] };
      // The first round warms up. The rounds alternate, so that other load on the machine affects both alike.
      for (let round = 0; round < 4; round += 1) {
        for (const kind of ['bare', 'endpoint']) {
          const measured = await rate(servers[kind].url, message(method, modern));
          if (round > 0) rates[kind].push(measured);
        }
      }
      const best = (kind) => Math.max(...rates[kind]);
      const ratio = best('endpoint') / best('bare');
      const revision = modern ? '2026' : '2025';
      console.log(
        `${count} tools, ${revision}, ${method}: bare ${best('bare').toFixed(0)}/s, endpoint ${best('endpoint').toFixed(0)}/s, ratio ${ratio.toFixed(2)}`,
      );
    }
  }
  for (const { child } of Object.values(servers)) child.kill();
}
