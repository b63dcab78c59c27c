/** Starts the bare pair (`bare-pair.mjs`), the yardstick of the load scripts. */
import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { freePort } from '../../tools/local/child-process.mjs';

/** @returns its URL, the pids of both processes by name, and the way to stop them */
export async function startBarePair(root, natsUrl) {
  const port = await freePort();
  const start = async (...args) => {
    const child = spawn(process.execPath, [join(root, 'test/load/bare-pair.mjs'), ...args], {
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    });
    await new Promise((resolve, reject) => {
      child.once('message', resolve);
      child.once('exit', () => reject(new Error('the bare pair did not start')));
    });
    return child;
  };
  const children = [await start('responder', natsUrl), await start('gateway', natsUrl, String(port))];
  return {
    url: `http://127.0.0.1:${port}/call`,
    pids: { bare_responder: children[0].pid, bare_gateway: children[1].pid },
    stop: () => children.forEach((child) => child.kill('SIGKILL')),
  };
}
