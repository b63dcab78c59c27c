/**
 * Runs programs of the set-up (npm, apt-get, tsc) without blocking, so that steps can show that they live and run side by side.
 * Runs on Node >= 20 and uses nothing that has to be installed first.
 */
import { spawn } from 'node:child_process';

/** Output kept of a program; a message needs its last lines only. */
const KEPT_CHARS = 100_000;
const running = new Set();
process.on('exit', () => {
  for (const child of running) child.kill('SIGTERM');
});

/**
 * Runs a program to its end. Never rejects: a program that cannot be started is also a result.
 * @param {{cwd?: string, env?: NodeJS.ProcessEnv, timeoutMs?: number}} [options] the program is killed after `timeoutMs`
 * @returns {Promise<{ok: boolean, stdout: string, output: string}>} `output` is standard output and error in order of arrival,
 *   or why the program did not run
 */
export function runProgram(command, args, { cwd, env, timeoutMs } = {}) {
  return new Promise((resolve) => {
    let stdout = '';
    let output = '';
    const child = spawn(command, args, { cwd, env, stdio: ['ignore', 'pipe', 'pipe'] });
    running.add(child);
    const timer = timeoutMs === undefined ? undefined : setTimeout(() => child.kill('SIGKILL'), timeoutMs);
    const end = (result) => {
      clearTimeout(timer);
      running.delete(child);
      resolve(result);
    };
    const keep = (text, chunk) => (text + chunk).slice(-KEPT_CHARS);
    child.stdout.setEncoding('utf8').on('data', (chunk) => {
      stdout = keep(stdout, chunk);
      output = keep(output, chunk);
    });
    child.stderr.setEncoding('utf8').on('data', (chunk) => (output = keep(output, chunk)));
    child.once('error', (error) => end({ ok: false, stdout, output: error.message }));
    child.once('close', (code, signal) =>
      end({ ok: code === 0, stdout, output: output || (signal ? `ended by ${signal}` : '') }),
    );
  });
}

/**
 * Runs a program of Node whose output is shown, and ends it when a signal ends this process: a blocking spawn would leave it behind.
 * @returns {Promise<number>} its exit code; 1 when a signal ended it
 */
export function runShown(args, { cwd, env } = {}) {
  endWithParent();
  return new Promise((resolve) => {
    const child = spawn(process.execPath, args, { cwd, env, stdio: 'inherit' });
    running.add(child);
    child.once('close', (code) => {
      running.delete(child);
      resolve(code ?? 1);
    });
  });
}

let endsWithParent = false;
/** A signal, or the end of the process that started this one, ends it by way of `exit`, which ends what runs. */
function endWithParent() {
  if (endsWithParent) return;
  endsWithParent = true;
  for (const event of ['SIGINT', 'SIGTERM', 'SIGHUP', 'disconnect']) process.once(event, () => process.exit(1));
}

/** The last lines of an output, without blank ones. */
export function lastLines(output, count) {
  return output
    .split('\n')
    .filter((line) => line.trim() !== '')
    .slice(-count)
    .join('\n');
}
