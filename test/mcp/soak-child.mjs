/**
 * One process of the soak: `soak-child.mjs endpoint` serves; `soak-child.mjs executor <url>` calls. Reports the heap after a
 * collection, resident memory and peak resident memory in bytes.
 */
import { readFileSync } from 'node:fs';
import { BreakerMap, SystemClock } from '@toolfleet/resilience';
import { EgressClient } from '@toolfleet/egress';
import { McpExecutor } from '../../apps/mcp-executor/dist/mcp-executor.js';
import { POOL_LIMITS, SessionPool } from '../../apps/mcp-executor/dist/session-pool.js';
import { serveEcho } from './served-endpoint.mjs';

const [kind, url] = process.argv.slice(2);
const clock = new SystemClock();

async function endpoint() {
  const tools = Array.from({ length: 50 }, (_, index) => ({ name: `tool_${index}` }));
  return { port: await serveEcho(tools, clock, ({ onProgress }) => onProgress?.({ progress: 1 })) };
}

function executor() {
  const egress = new EgressClient({ allowlist: [], allowedEndpoints: [new URL(url).origin] });
  const deps = { egress, clock, expand: (value) => value, maxResponseBytes: 1_000_000 };
  const pool = new SessionPool({ ...deps, allowStdio: false, version: '1' }, undefined, {
    ...POOL_LIMITS,
    idleCloseMs: 50,
  });
  const breakers = new BreakerMap({ consecutiveFailures: 5, recoveryMs: 60_000 }, clock);
  const made = new McpExecutor(pool, breakers, deps, clock, { defaultIdleMs: 5_000 });
  const call = async (server) => {
    const reply = await made.execute(
      {
        call_id: crypto.randomUUID(),
        attempt: 1,
        fence: 1,
        journalled: false,
        tool: server,
        revision: server,
        binding: { kind: 'mcp', server, transport: 'streamable-http', url, remoteName: 'tool_1' },
        arguments: { text: 'x'.repeat(500) },
        context: { tenant_id: 't' },
      },
      { remainingMs: 10_000, signal: new AbortController().signal },
    );
    if (!reply.ok) throw new Error(JSON.stringify(reply));
  };
  return { call };
}

function peakBytes() {
  const kib = /VmHWM:\s+(\d+)/.exec(readFileSync('/proc/self/status', 'utf8'))?.[1];
  return Number(kib) * 1_024;
}

const role = kind === 'endpoint' ? await endpoint() : executor();
process.on('message', async ({ ask, calls = 0, reconnects = 0 }) => {
  if (ask === 'run') {
    for (let left = calls; left > 0; left -= 10)
      await Promise.all(Array.from({ length: 10 }, () => role.call('steady')));
    // Another server name is another session, closed by the pool when idle.
    for (let index = 0; index < reconnects; index += 1) await role.call(`once-${index % 7}-${Math.floor(index / 7)}`);
    await clock.sleep(300);
  }
  globalThis.gc?.();
  const { rss, heapUsed } = process.memoryUsage();
  process.send({ rss, heapUsed, peak: peakBytes() });
});
process.send(role.port ? { port: role.port } : { ready: true });
process.on('disconnect', () => process.exit(0));
