/** Runs lines of a recipe that is a shell command, in the folder where the clients are installed. */
import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const FOLDER = fileURLToPath(new URL('.', import.meta.url));

/**
 * @param {string} command
 * @param {Record<string, string>} env variables of the recipe
 * @param {AbortSignal} [signal] interrupts the command, as Ctrl-C does
 * @returns {Promise<string>} its standard output; rejects with what it reports, and `output`, when it fails
 */
export function runShell(command, env, signal) {
  const child = spawn('bash', ['-c', command], { cwd: FOLDER, detached: true, env: { ...process.env, ...env } });
  const kill = (name) => {
    if (child.pid === undefined) return;
    try {
      process.kill(-child.pid, name);
    } catch {
      // It has ended.
    }
  };
  signal?.addEventListener('abort', () => kill('SIGINT'));
  process.once('exit', () => kill('SIGKILL'));
  let [output, errors] = ['', ''];
  child.stdout.on('data', (chunk) => (output += chunk));
  child.stderr.on('data', (chunk) => (errors += chunk));
  return new Promise((resolve, reject) => {
    child.on('error', reject);
    child.on('close', (code) => {
      if (code === 0) return resolve(output);
      // Warnings of npm are about this machine.
      const said = errors.replaceAll(/^npm warn .*\n/gm, '').trim();
      return reject(Object.assign(new Error(`${said} (exit code ${code})`), { output }));
    });
  });
}
