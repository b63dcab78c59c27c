/**
 * Runs one local MCP server: `stdio-guard.js <memory limit in MB> <command> [arguments]`. The server gets its own process
 * group. When standard input ends, however the parent died, the group gets SIGTERM and then SIGKILL, so that no orphan is left.
 * The memory of the group's leader is checked twice a second. If this process itself is killed (the SDK kills transports it
 * abandons), a shell that waits on a pipe from it kills the group.
 */
import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
// A separate program that must load nothing else, so it uses timers directly instead of a Clock.
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
  killGroup('SIGKILL'); // child processes that outlived the server
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
  // The end of its input asks the server to exit; the signals are for servers that do not.
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
  shell.on('error', () => undefined); // without a shell, signals and standard input still end the group
  shell.stdin.on('error', () => undefined);
  shell.unref();
}

function killGroup(signal: NodeJS.Signals): void {
  if (child.pid === undefined) return;
  try {
    process.kill(-child.pid, signal);
  } catch {
    // The group has ended already.
  }
}

/** 0 where /proc does not exist: there the memory limit has no effect. */
function residentBytes(): number {
  try {
    return Number(readFileSync(`/proc/${child.pid}/statm`, 'utf8').split(' ')[1]) * PAGE_BYTES;
  } catch {
    return 0;
  }
}
