import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { EgressClient } from '@toolfleet/egress';
import { BreakerMap, SystemClock } from '@toolfleet/resilience';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { McpExecutor } from './mcp-executor.js';
import { POOL_LIMITS, SessionPool } from './session-pool.js';

const GUARD = fileURLToPath(new URL('./stdio-guard.ts', import.meta.url));
/** A 2025 server in plain JavaScript: reports its pid, starts a child, ignores SIGTERM and can allocate memory. */
const SERVER = `
const { spawn } = require('node:child_process');
const { writeFileSync } = require('node:fs');
process.on('SIGTERM', () => {});
const helper = spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)'], { stdio: 'ignore' });
writeFileSync(process.env.PIDS, process.pid + ' ' + helper.pid);
setInterval(() => {}, 1000);
const send = (message) => process.stdout.write(JSON.stringify({ jsonrpc: '2.0', ...message }) + '\\n');
let rest = '';
process.stdin.on('data', (chunk) => {
  const lines = (rest + chunk).split('\\n');
  rest = lines.pop();
  for (const line of lines) answer(JSON.parse(line));
});
const hoard = [];
function answer({ id, method, params }) {
  if (id === undefined) return;
  if (method === 'initialize') return send({ id, result: { protocolVersion: '2025-11-25', capabilities: { tools: {} }, serverInfo: { name: 's', version: '1' } } });
  if (method === 'tools/list') return send({ id, result: { tools: [{ name: 'env', inputSchema: { type: 'object' } }] } });
  if (method === 'tools/call' && params.name === 'hoard') {
    setInterval(() => hoard.push(Buffer.alloc(20_000_000, 1)), 20);
    return;
  }
  if (method === 'tools/call') return send({ id, result: { content: [{ type: 'text', text: Object.keys(process.env).sort().join(',') }] } });
  send({ id, error: { code: -32601, message: 'Method not found' } });
}
`;

const folder = mkdtempSync(join(tmpdir(), 'stdio-'));
const script = join(folder, 'server.cjs');
beforeAll(() => writeFileSync(script, SERVER));
afterAll(() => rmSync(folder, { recursive: true }));

const pidsIn = (file: string) => readFileSync(file, 'utf8').split(' ').map(Number);
function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    // A zombie still has a pid; its state identifies it.
    return !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'));
  } catch {
    return false;
  }
}

function setUp(allowStdio: boolean) {
  const clock = new SystemClock();
  const egress = new EgressClient({ allowlist: [] });
  const parts = {
    egress,
    clock,
    expand: (value: string) => value.replace('$FOLDER', folder),
    maxResponseBytes: 100_000,
  };
  const pool = new SessionPool({ ...parts, allowStdio, version: '0' }, undefined, POOL_LIMITS);
  const breakers = new BreakerMap({ consecutiveFailures: 50, recoveryMs: 1_000 }, clock);
  const executor = new McpExecutor(pool, breakers, parts, clock, {});
  return { pool, executor, close: () => Promise.all([pool.close(), egress.close()]) };
}

const options = (pids: string, memory = 512) => ({
  command: process.execPath,
  args: ['$FOLDER/server.cjs'],
  env: { PIDS: `$FOLDER/${pids}` },
  memory_limit_mb: memory,
});
const message = (tool: string, more: object) => ({
  call_id: 'c',
  attempt: 1,
  fence: 1,
  journalled: false,
  tool,
  revision: JSON.stringify(more),
  binding: {
    kind: 'mcp' as const,
    server: 'local',
    transport: 'stdio' as const,
    url: '',
    remoteName: tool,
    options: { ...more },
  },
  arguments: {},
  context: { tenant_id: 't' },
});
const limits = () => ({ remainingMs: 15_000, signal: new AbortController().signal });

describe('local MCP servers', () => {
  it('are refused outside local mode', async () => {
    const { executor, close } = setUp(false);
    expect(await executor.execute(message('env', options('never')), limits())).toMatchObject({
      failure: { code: 'EGRESS_REFUSED' },
    });
    await close();
  });

  it('are discovered and called with a minimal environment and leave no process behind', async () => {
    const { executor, close } = setUp(true);
    const found = await executor.discover(
      { server: 'local', transport: 'stdio', ...options('one') },
      { timeoutMs: 15_000, signal: new AbortController().signal },
    );
    expect(found.tools.map(({ name }) => name)).toEqual(['env']);
    const reply = await executor.execute(message('env', options('one')), limits());
    expect(reply.text.split(',')).toContain('PIDS');
    expect(reply.text).not.toContain('npm_');
    const pids = pidsIn(join(folder, 'one'));
    expect(pids.every(isAlive)).toBe(true);
    await close();
    await expect.poll(() => pids.some(isAlive)).toBe(false);
  });

  it('are killed when they exceed their memory, and the next call starts another', async () => {
    const { executor, close } = setUp(true);
    expect(await executor.execute(message('hoard', options('two', 200)), limits())).toMatchObject({
      // The server had received the call, so its effects are unknown.
      failure: { code: 'NETWORK_ERROR', facts: { delivered: true } },
    });
    expect(await executor.execute(message('env', options('two', 200)), limits())).toMatchObject({ ok: true });
    await close();
  });

  it('that cannot be started are named, and the call counts as not delivered', async () => {
    const { executor, close } = setUp(true);
    const reply = await executor.execute(message('env', { ...options('none'), command: '/no/such/program' }), limits());
    expect(reply.failure).toMatchObject({
      code: 'NETWORK_ERROR',
      message: 'The local MCP server local cannot be started or exits at once: /no/such/program',
      facts: { delivered: false },
    });
    await close();
  });

  it('die with a parent that was killed', async () => {
    const guard = spawn(process.execPath, [GUARD, '512', process.execPath, script], {
      env: { PATH: process.env['PATH'], PIDS: join(folder, 'three') },
      stdio: ['pipe', 'ignore', 'ignore'],
    });
    await expect.poll(() => readable(join(folder, 'three'))).toBe(true);
    const pids = pidsIn(join(folder, 'three'));
    guard.stdin.end(); // what the system does to the pipe of a killed parent
    await expect.poll(() => pids.some(isAlive)).toBe(false);
  });
});

function readable(file: string): boolean {
  try {
    return readFileSync(file, 'utf8').includes(' ');
  } catch {
    return false;
  }
}
