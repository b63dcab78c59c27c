/** Child processes of the local runner: logged to a file, stopped by pid, never left behind. */
import { spawn } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { closeSync, openSync } from 'node:fs';
import { createServer } from 'node:net';

/** Below the ephemeral ports of every system: no connection takes a port of this range before its owner binds it. */
const FIRST_PORT = 10_000;
const LAST_PORT = 32_000;

/** A loopback TCP port that nothing listens on. */
export async function freePort() {
  for (;;) {
    const port = randomInt(FIRST_PORT, LAST_PORT + 1);
    if (await portIsFree(port)) return port;
  }
}

/** True when the loopback port can be bound. */
export function portIsFree(port) {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => resolve(false));
    server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)));
  });
}

/** Calls `end` when a user or the parent asks this process to end, or the parent has ended. */
export function onInterrupt(end) {
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP', 'disconnect']) process.on(signal, () => void end());
  // The parent ended before this could listen.
  if (process.send && !process.connected) void end();
}

/**
 * Becomes the program in its arguments, after starting a watcher in the same process group that kills the group once the pipe from
 * this process closes. The program inherits the pipe's owner from its first instant, so there is no moment at which this process can
 * end and leave it running.
 */
const WATCHED = '(cat <&3 >/dev/null; kill -9 -$$) 2>/dev/null & exec "$@" 3<&-';

/**
 * Starts a program in its own process group, so that Ctrl-C at the terminal reaches only the runner, and it stops
 * everything in order. A runner that is killed leaves nothing behind either: a service sees the end of its channel (`ipc`), and a
 * watcher ends any other program. `onExit` receives the exit code or the signal; 127 means that the program could not be started.
 * @returns {{name: string, pid: number, exited: Promise<number|string>, running: () => boolean, stop: (graceMs: number) => Promise<void>}}
 */
export function startProcess({ name, command, args, env, logFile, ipc = false, onExit, onMessage }) {
  const log = openSync(logFile, 'a');
  const child = ipc
    ? spawn(command, args, { env, detached: true, stdio: ['ignore', log, log, 'ipc'] })
    : spawn('/bin/sh', ['-c', WATCHED, 'sh', command, ...args], {
        env,
        detached: true,
        stdio: ['ignore', log, log, 'pipe'],
      });
  closeSync(log);
  const killGroup = (signal) => {
    try {
      process.kill(-Number(child.pid), signal);
    } catch {
      // Already gone.
    }
  };
  let running = true;
  const exited = new Promise((resolve) => {
    const end = (status) => {
      if (!running) return;
      running = false;
      killGroup('SIGKILL'); // Grandchildren that outlived their parent.
      resolve(status);
      onExit?.(status);
    };
    child.once('error', () => end(127));
    child.once('exit', (code, signal) => end(code ?? signal));
  });
  if (ipc) child.on('message', (message) => onMessage?.(message));
  if (!ipc) {
    child.stdio[3].on('error', () => undefined);
    child.stdio[3].unref();
  }
  return {
    name,
    pid: child.pid,
    exited,
    running: () => running,
    async stop(graceMs) {
      if (!running) return;
      child.kill('SIGTERM');
      const timer = setTimeout(() => killGroup('SIGKILL'), graceMs);
      await exited;
      clearTimeout(timer);
    },
  };
}
