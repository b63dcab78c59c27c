/**
 * `node test/mcp/soak.mjs`: 10,000 calls and 500 reconnects through endpoint and executor, after a warm-up of twice as many.
 * During warm-up V8 grows its young generation and keeps freed pages, so resident memory grows in steps while the heap does not.
 * Exit code 1 when heap or peak memory of a process grew by more than 5 %. The peak is compared instead of the current size,
 * because V8 returns spare pages from time to time. `SOAK_NODE_FLAGS` are passed to both processes.
 */
import { fork } from 'node:child_process';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';

const here = dirname(fileURLToPath(import.meta.url));
const CALLS = Number(process.env.SOAK_CALLS ?? 10_000);
const RECONNECTS = Number(process.env.SOAK_RECONNECTS ?? 500);
const WARM_UP_ROUNDS = 2;
const FLAGS = (process.env.SOAK_NODE_FLAGS ?? '').split(' ').filter(Boolean);
const MOST_DRIFT = 5;

function start(...args) {
  const child = fork(join(here, 'soak-child.mjs'), args, { execArgv: ['--expose-gc', ...FLAGS] });
  const next = () => new Promise((resolve) => child.once('message', resolve));
  return { child, first: next(), ask: (message) => (child.send(message), next()) };
}

const endpoint = start('endpoint');
const { port } = await endpoint.first;
const url = `http://127.0.0.1:${port}/mcp`;
const executor = start('executor', url);
await executor.first;

/** Clients that connect, list, call with progress and disconnect. */
async function visit(times) {
  for (let index = 0; index < times; index += 1) {
    const client = new Client(
      { name: 'soak', version: '1' },
      { versionNegotiation: { mode: index % 2 ? 'legacy' : 'auto' } },
    );
    await client.connect(new StreamableHTTPClientTransport(new URL(url)));
    await client.listTools();
    await client.callTool({ name: 'tool_1', arguments: { text: 'hi' } }, { onprogress: () => undefined });
    await client.close();
  }
}

async function round() {
  await executor.ask({ ask: 'run', calls: CALLS, reconnects: RECONNECTS });
  await visit(RECONNECTS);
  return { endpoint: await endpoint.ask({ ask: 'memory' }), executor: await executor.ask({ ask: 'memory' }) };
}

const mega = (bytes) => (bytes / 1024 / 1024).toFixed(1);
const drift = (from, to) => ((to - from) / from) * 100;
let before;
for (let index = 0; index < WARM_UP_ROUNDS; index += 1) {
  before = await round();
  for (const [name, { heapUsed, rss, peak }] of Object.entries(before))
    console.log(`warm-up ${index + 1}, ${name}: heap ${mega(heapUsed)}, rss ${mega(rss)}, peak ${mega(peak)} MB`);
}
const after = await round();
let grew = false;
for (const name of ['endpoint', 'executor']) {
  const [a, b] = [before[name], after[name]];
  const shown = ['heapUsed', 'rss', 'peak'].map(
    (what) => `${what} ${mega(a[what])} -> ${mega(b[what])} MB (${drift(a[what], b[what]).toFixed(1)} %)`,
  );
  grew ||= drift(a.heapUsed, b.heapUsed) > MOST_DRIFT || drift(a.peak, b.peak) > MOST_DRIFT;
  console.log(`${name}: ${shown.join(', ')}`);
}
endpoint.child.kill();
executor.child.kill();
process.exit(grew ? 1 : 0);
