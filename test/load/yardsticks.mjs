/** Starts the yardsticks of the load scripts: the bare pair (`bare-pair.mjs`) and the floor (`floor.mjs`). */
import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { freePort } from '../../tools/local/child-process.mjs';

/**
 * @param {string} root of the repository
 * @param {string} natsUrl
 * @returns its URL, the pids of both processes by name, and the way to stop them
 */
export async function startBarePair(root, natsUrl) {
  const port = await freePort();
  const script = join(root, 'test/load/bare-pair.mjs');
  const children = [await start(script, 'responder', natsUrl), await start(script, 'gateway', natsUrl, String(port))];
  return {
    url: `http://127.0.0.1:${port}/call`,
    pids: { bare_responder: children[0].pid, bare_gateway: children[1].pid },
    stop: () => children.forEach((child) => child.kill('SIGKILL')),
  };
}

/**
 * @param {string} root of the repository
 * @param {string} upstream origin of an MCP server
 * @returns its URL, the key that it checks, the pid of its process by name, and the way to stop it
 */
export async function startFloor(root, upstream) {
  const [port, key] = [await freePort(), 'a-key-of-the-floor'];
  const child = await start(join(root, 'test/load/floor.mjs'), String(port), upstream, key);
  return { url: `http://127.0.0.1:${port}/`, key, pids: { floor: child.pid }, stop: () => child.kill('SIGKILL') };
}

async function start(script, ...args) {
  const child = spawn(process.execPath, [script, ...args], { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] });
  await new Promise((resolve, reject) => {
    child.once('message', resolve);
    child.once('exit', () => reject(new Error(`${script} did not start`)));
  });
  return child;
}
