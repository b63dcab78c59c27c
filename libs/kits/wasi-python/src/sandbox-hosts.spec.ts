/** The life cycle of host processes, with fake hosts that run no programs. */
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { SystemClock, type Clock } from '@toolfleet/base';
import { eventually, FakeClock } from '@toolfleet/testing';
import { afterEach, beforeEach, expect, it } from 'vitest';
import type { RunRequest } from './python/guest-protocol.js';
import { Sandbox } from './sandbox.js';

/**
 * Becomes ready once the file `starts` says yes, and reports a compiled package when it says `compiled`. Replies to every run at once, and
 * is due for replacement after the first.
 */
const HOST = `
import { readFileSync } from 'node:fs';
const starts = () => readFileSync(new URL('./starts', import.meta.url), 'utf8');
let compiled = false;
const start = () => {
  if (starts() === 'compiled' && !compiled) {
    compiled = true;
    process.send({ type: 'compiled' });
    process.send({ type: 'killed', reason: 'crashed', killMs: 0 });
  }
  if (starts() === 'yes') process.send({ type: 'ready', version: '3' });
  else setTimeout(start, 10);
};
process.on('disconnect', () => process.exit());
process.on('message', ({ type, id }) => {
  if (type === 'start') start();
  if (type !== 'run') return;
  process.send({ type: 'reply', id, reply: { status: 'ok' } });
  process.send({ type: 'health', rssMb: 1, runs: 1 });
});`;

let folder: string;
let messages: number;
let sandbox: Sandbox;
let events: string[];
const starts = (state: 'yes' | 'no' | 'compiled') => writeFileSync(join(folder, 'starts'), state);
const run = () => sandbox.run({ timeoutMs: 5_000 } as RunRequest);

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'hosts-'));
  writeFileSync(join(folder, 'host.mjs'), HOST);
  starts('yes');
  await startSandbox(new SystemClock());
});

function startSandbox(time: Clock): Promise<void> {
  events = [];
  messages = 0;
  sandbox = new Sandbox({
    clock: time,
    hostScript: join(folder, 'host.mjs'),
    graceMs: 1_000,
    recycleRuns: 1,
    recycleRssMb: 1_000,
    settings: { threadScript: join(folder, 'host.mjs'), interpreter: { wasmPath: folder } } as never,
    onEvent: (event) => events.push(event),
    onKilled: () => (messages += 1),
  });
  return sandbox.start();
}
afterEach(async () => {
  await sandbox.close();
  rmSync(folder, { recursive: true });
});

/** Process ids of the running hosts, found by their command line. */
function hosts(): number[] {
  const pids = readdirSync('/proc').filter((name) => /^\d+$/.test(name));
  return pids.filter((pid) => commandLine(pid).includes(join(folder, 'host.mjs'))).map(Number);
}

function commandLine(pid: string): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8');
  } catch {
    return ''; // it has exited
  }
}

/** Replaces the live host by one that does not start. Returns the process id of the latter. */
async function recycleWithoutSuccess(): Promise<number> {
  starts('no');
  const old = sandbox.hostPid;
  expect(await run()).toMatchObject({ status: 'ok' });
  await eventually('a successor starts', () => hosts().length === 2);
  return hosts().find((pid) => pid !== old) as number;
}

it('kills a successor that is still starting when the sandbox is closed', async () => {
  await recycleWithoutSuccess();
  await sandbox.close();
  expect(hosts()).toEqual([]);
});

it('starts another host when one dies and its successor does not start', async () => {
  const successor = await recycleWithoutSuccess();
  process.kill(sandbox.hostPid as number, 'SIGKILL');
  await eventually('it is gone', () => !sandbox.isReady);
  process.kill(successor, 'SIGKILL');
  starts('yes');
  expect(await run()).toMatchObject({ status: 'ok' });
  expect(events).toContain('sandbox host restarted');
});

it('gives a host its time anew with each package that it has compiled', async () => {
  await sandbox.close();
  starts('no');
  const clock = new FakeClock();
  const started = startSandbox(clock);
  await eventually('the host starts', () => hosts().length === 1);
  clock.advance(100_000);
  starts('compiled');
  await eventually('a package is compiled', () => messages === 1);
  clock.advance(100_000);
  starts('yes');
  await started;
  expect(sandbox.isReady).toBe(true);
});
