/** Child processes of the local runner: logged to a file, stopped by pid, never left behind. */
import { spawn } from 'node:child_process';
import { closeSync, openSync } from 'node:fs';
import { createServer } from 'node:net';

/** A free loopback TCP port. */
export function freePort() {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once('error', reject);
    server.listen(0, '127.0.0.1', () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });
}

/** True when the loopback port can be bound. */
export function portIsFree(port) {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => resolve(false));
    server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)));
  });
}

/** Ends a process group once the pipe to this process closes, however this process ended. */
const WATCH = 'cat >/dev/null; kill -9 "-$0" 2>/dev/null';

/**
 * Starts a program in its own process group, so that Ctrl-C at the terminal reaches only the runner, which then stops
 * everything in order. A runner that is killed leaves nothing behind either: a service sees the end of its channel (`ipc`), any
 * other program is ended by a shell that holds the other end of a pipe. `onExit` receives the exit code or the signal.
 * @returns {{name: string, pid: number, exited: Promise<number|string>, running: () => boolean, stop: (graceMs: number) => Promise<void>}}
 */
export function startProcess({ name, command, args, env, logFile, ipc = false, onExit, onMessage }) {
  const log = openSync(logFile, 'a');
  const child = spawn(command, args, { env, detached: true, stdio: ['ignore', log, log, ...(ipc ? ['ipc'] : [])] });
  closeSync(log);
  const killGroup = (signal) => {
    try {
      process.kill(-child.pid, signal);
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
  if (!ipc && child.pid) watch(child);
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

function watch(child) {
  const watcher = spawn('/bin/sh', ['-c', WATCH, String(child.pid)], {
    detached: true, // Ctrl-C at the terminal must not end it first.
    stdio: ['pipe', 'ignore', 'ignore'],
  });
  watcher.on('error', () => undefined);
  watcher.unref();
  watcher.stdin.unref();
  // The pid of a child that ended may soon belong to another process.
  child.once('exit', () => {
    watcher.kill('SIGKILL');
    watcher.stdin.destroy();
  });
}
