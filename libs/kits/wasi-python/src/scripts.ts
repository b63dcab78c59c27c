import { fileURLToPath } from 'node:url';

const scriptPath = (relative: string): string => fileURLToPath(new URL(relative, import.meta.url));

/** Paths of the compiled programs that a {@link Sandbox} starts: its child process and the threads in it. A bundle has them next to its main file. */
export const SCRIPTS = {
  host: scriptPath('./sandbox-host.js'),
  thread: scriptPath('./wasi/sandbox-thread.js'),
} as const;
