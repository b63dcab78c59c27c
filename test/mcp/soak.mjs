/**
 * `node test/mcp/soak.mjs`: 10,000 calls and 500 reconnects through door and executor, after a warm-up of the same kind.
 * Prints the memory of both processes before and after; exit code 1 when the heap of one grew by more than 5 %.
 */
import { fork } from 'node:child_process';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';

const here = dirname(fileURLToPath(import.meta.url));
const CALLS = Number(process.env.SOAK_CALLS ?? 10_000);
const RECONNECTS = Number(process.env.SOAK_RECONNECTS ?? 500);

function start(...args) {
  const child = fork(join(here, 'soak-child.mjs'), args, { execArgv: ['--expose-gc'] });
  const next = () => new Promise((resolve) => child.once('message', resolve));
  return { child, first: next(), ask: (message) => (child.send(message), next()) };
}

const door = start('door');
const { port } = await door.first;
const url = `http://127.0.0.1:${port}/mcp`;
const executor = start('executor', url);
await executor.first;

/** Clients of the door that come, list, call with progress and go. */
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

const round = async (share) => {
  await executor.ask({ ask: 'run', calls: CALLS * share, reconnects: RECONNECTS * share });
  await visit(RECONNECTS * share);
  return { door: await door.ask({ ask: 'memory' }), executor: await executor.ask({ ask: 'memory' }) };
};

await round(0.3);
const before = await round(0.3);
const after = await round(1);
const mega = (bytes) => (bytes / 1024 / 1024).toFixed(1);
let grew = false;
for (const name of ['door', 'executor']) {
  const [a, b] = [before[name], after[name]];
  const drift = ((b.heapUsed - a.heapUsed) / a.heapUsed) * 100;
  const rssDrift = ((b.rss - a.rss) / a.rss) * 100;
  grew ||= drift > 5;
  console.log(
    `${name}: heap ${mega(a.heapUsed)} -> ${mega(b.heapUsed)} MB (${drift.toFixed(1)} %), rss ${mega(a.rss)} -> ${mega(b.rss)} MB (${rssDrift.toFixed(1)} %)`,
  );
}
door.child.kill();
executor.child.kill();
process.exit(grew ? 1 : 0);
