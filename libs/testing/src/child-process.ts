import { spawn, type ChildProcess, type SpawnOptions } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { createServer, type Socket } from 'node:net';
import { PATIENCE_MS } from './patience.js';

/** Kills the child and removes its folder when the pipe to this process closes, whatever ended this process. */
const WATCH = 'cat >/dev/null; kill -9 "$0" 2>/dev/null; if [ -n "$1" ]; then rm -rf "$1"; fi';

/**
 * Starts a program that cannot outlive this process. Test runners end their workers by signals without exit handlers, so
 * a small shell holds the other end of a pipe and kills the child when the pipe closes.
 * @param folder removed together with the child
 */
export function spawnChild(
  command: string,
  args: readonly string[],
  options: SpawnOptions = {},
  folder = '',
): ChildProcess {
  const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'pipe'], ...options });
  if (child.pid === undefined) return child;
  const watcher = spawn('/bin/sh', ['-c', WATCH, String(child.pid), folder], { stdio: ['pipe', 'ignore', 'ignore'] });
  watcher.on('error', () => undefined);
  watcher.unref();
  (watcher.stdin as Socket | null)?.unref();
  // The pid may soon belong to another process: do not kill it.
  child.once('exit', () => watcher.kill('SIGKILL'));
  return child;
}

/** Ends a child with a signal, and with SIGKILL after `graceMs`. @returns its exit code, or null when it was killed */
export async function endChild(
  child: ChildProcess,
  signal: NodeJS.Signals = 'SIGTERM',
  graceMs = 5_000,
): Promise<number | null> {
  if (child.exitCode !== null || child.signalCode !== null) return child.exitCode;
  const ended = new Promise<number | null>((resolve) => child.once('exit', (code) => resolve(code)));
  child.kill('SIGCONT');
  child.kill(signal);
  const killer = setTimeout(() => child.kill('SIGKILL'), graceMs);
  const code = await ended;
  clearTimeout(killer);
  return code;
}

/**
 * Below the ephemeral ports of every system: no connection, and no listener on port 0, takes a port of this range between the moment it
 * is chosen and the moment its owner binds it, or while its owner is restarted.
 */
const FIRST_PORT = 10_000;
const LAST_PORT = 32_000;

/** A loopback port that nothing listens on. Another caller may have chosen the same one, so callers that can should retry. */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = randomInt(FIRST_PORT, LAST_PORT + 1);
    if (await canListen(port)) return port;
  }
}

function canListen(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => resolve(false));
    server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)));
  });
}

/** Repeats `check` until it is true. Name a `timeoutMs` only where lateness is the fault. @throws Error that names `what` after it */
export async function eventually(
  what: string,
  check: () => boolean | Promise<boolean>,
  { timeoutMs = PATIENCE_MS, everyMs = 50 }: { timeoutMs?: number; everyMs?: number } = {},
): Promise<void> {
  const until = performance.now() + timeoutMs;
  for (;;) {
    if (await check()) return;
    if (performance.now() > until) throw new Error(`not in ${timeoutMs} ms: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, everyMs));
  }
}
