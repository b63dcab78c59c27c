/**
 * `node test/mcp/idle.mjs`: memory of the endpoint per idle client in KB, with 1,000 clients: those that called once and keep
 * their connection, and those that hold a `subscriptions/listen` stream.
 */
import { fork } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { Agent, request } from 'undici';

const CLIENTS = 1_000;
const VERSION = '2026-07-28';
const child = fork(new URL('./bench-server.mjs', import.meta.url), ['endpoint', '50'], {
  stdio: ['ignore', 'pipe', 'inherit', 'ipc'],
});
const port = await new Promise((resolve) =>
  child.stdout.once('data', (chunk) => resolve(JSON.parse(String(chunk)).port)),
);
const url = `http://127.0.0.1:${port}/mcp`;
const rss = () => Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${child.pid}/status`, 'utf8'))[1]);
const settle = () => new Promise((resolve) => setTimeout(resolve, 1_500));

function post(method, params, dispatcher) {
  const _meta = {
    'io.modelcontextprotocol/protocolVersion': VERSION,
    'io.modelcontextprotocol/clientCapabilities': {},
  };
  return request(url, {
    method: 'POST',
    dispatcher,
    headers: {
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      'mcp-protocol-version': VERSION,
      'mcp-method': method,
    },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params: { ...params, _meta } }),
  });
}

async function open(kind) {
  const agents = [];
  for (let index = 0; index < CLIENTS; index += 1) {
    const agent = new Agent({ connections: 1, keepAliveTimeout: 60_000, bodyTimeout: 0 });
    agents.push(agent);
    if (kind === 'called once') await (await post('tools/list', {}, agent)).body.dump();
    else {
      const { body } = await post('subscriptions/listen', { notifications: { toolsListChanged: true } }, agent);
      body.on('error', () => undefined);
      await new Promise((resolve) => body.once('data', resolve));
    }
  }
  return agents;
}

for (let round = 0; round < 200; round += 1)
  await (await post('tools/list', {}, new Agent({ connections: 1, keepAliveTimeout: 10 }))).body.dump();
for (const kind of ['called once', 'listening']) {
  await settle();
  const before = rss();
  const agents = await open(kind);
  await settle();
  console.log(
    `${CLIENTS} clients, ${kind}: ${((rss() - before) / CLIENTS).toFixed(1)} KB each (rss ${before} -> ${rss()} KB)`,
  );
  await Promise.all(agents.map((agent) => agent.destroy()));
}
child.kill();
process.exit(0);
