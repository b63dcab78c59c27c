/**
 * Runs one local MCP server: `stdio-guard.js <memory limit in MB> <command> [arguments]`. The server gets its own process
 * group. Our standard input is the parent's lifeline: when it ends, however the parent died, the group gets SIGTERM and
 * then SIGKILL, so no orphan is left. Memory of the group's leader is checked twice a second. This process may be killed
 * itself (the SDK does so to a transport it gives up): a shell that waits for the end of our pipe kills the group then.
 */
import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
// A program of its own that must not load anything else: the one place beside the clock that waits by itself.
import { setTimeout as sleep } from 'node:timers/promises';

const TERM_AFTER_MS = 500;
const KILL_AFTER_MS = 1_000;
const CHECK_EVERY_MS = 500;
const PAGE_BYTES = 4_096;

const [limitMb = '512', command = '', ...args] = process.argv.slice(2);
const child = spawn(command, args, { stdio: ['pipe', 'inherit', 'inherit'], detached: true });

if (child.pid !== undefined) lastResort(child.pid);

child.on('error', () => process.exit(127));
child.on('exit', (code, signal) => {
  killGroup('SIGKILL'); // helpers of the server that outlived it
  process.exit(signal ? 1 : (code ?? 1));
});
child.stdin.on('error', () => undefined);
process.stdin.pipe(child.stdin);
process.stdin.on('end', () => void endGroup());
process.stdin.on('error', () => void endGroup());
for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.on(signal, () => void endGroup());

let ending = false;
async function endGroup(): Promise<void> {
  if (ending) return;
  ending = true;
  // The end of its input already asks the server to leave; signals are for those that do not.
  await sleep(TERM_AFTER_MS);
  killGroup('SIGTERM');
  await sleep(KILL_AFTER_MS - TERM_AFTER_MS);
  killGroup('SIGKILL');
  process.exit(1);
}

async function watchMemory(): Promise<never> {
  for (;;) {
    await sleep(CHECK_EVERY_MS, undefined, { ref: false });
    if (residentBytes() > Number(limitMb) * 1024 * 1024) killGroup('SIGKILL');
  }
}
void watchMemory();

function lastResort(group: number): void {
  const shell = spawn('/bin/sh', ['-c', 'read _; kill -9 "-$0"', String(group)], {
    stdio: ['pipe', 'ignore', 'ignore'],
    detached: true,
  });
  shell.on('error', () => undefined); // no shell: signals and the lifeline are left
  shell.stdin.on('error', () => undefined);
  shell.unref();
}

function killGroup(signal: NodeJS.Signals): void {
  if (child.pid === undefined) return;
  try {
    process.kill(-child.pid, signal);
  } catch {
    // The group is gone.
  }
}

/** 0 where /proc does not exist: then there is no memory limit, only the lifeline. */
function residentBytes(): number {
  try {
    return Number(readFileSync(`/proc/${child.pid}/statm`, 'utf8').split(' ')[1]) * PAGE_BYTES;
  } catch {
    return 0;
  }
}
