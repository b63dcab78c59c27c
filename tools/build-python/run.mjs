import { spawnSync } from 'node:child_process';

/** Runs CPython's own generators: it has to be of the version that is built. */
export const PYTHON = '/usr/bin/python3.11';

/** Runs a program to its end; its output. Throws an Error with its last lines of output when it fails. */
export function run(command, args, { cwd, env = {} } = {}) {
  const options = { cwd, env: { ...process.env, ...env }, encoding: 'utf8', maxBuffer: 1 << 30 };
  const { status, stdout, stderr, error } = spawnSync(command, args, options);
  if (status === 0) return stdout;
  const said = error?.message ?? `${stdout}${stderr}`.trim().split('\n').slice(-12).join('\n');
  throw new Error(`${command} ${args[0]} failed:\n${said}`);
}
