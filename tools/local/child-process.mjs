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

/**
 * Starts a program in its own process group, so that Ctrl-C at the terminal reaches only the runner, which then stops
 * everything in order.
 * @returns {{name: string, pid: number, messages: unknown[], exited: Promise<number|null>, running: () => boolean, stop: (graceMs: number) => Promise<void>}}
 */
export function startProcess({ name, command, args, env, logFile, ipc = false, onExit, onMessage }) {
  const log = openSync(logFile, 'a');
  const child = spawn(command, args, { env, detached: true, stdio: ['ignore', log, log, ...(ipc ? ['ipc'] : [])] });
  closeSync(log);
  let running = true;
  const exited = new Promise((resolve) => {
    const end = (code) => {
      if (!running) return;
      running = false;
      resolve(code);
      onExit?.(code);
    };
    child.once('error', () => end(127));
    child.once('exit', (code) => end(code));
  });
  if (ipc) child.on('message', (message) => onMessage?.(message));
  const killGroup = (signal) => {
    try {
      process.kill(-child.pid, signal);
    } catch {
      // Already gone.
    }
  };
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
      killGroup('SIGKILL'); // Grandchildren that outlived their parent.
    },
  };
}
