/** A server of the examples of the official SDK, as its package has it, in a process of its own on loopback. */
import { fileURLToPath } from 'node:url';
import { endChild, eventually, freePort, spawnChild } from '@toolfleet/testing';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const EXAMPLES = `${ROOT}/node_modules/@modelcontextprotocol/sdk/dist/esm/examples/server`;
/** The examples listen on all interfaces. */
const ON_LOOPBACK = `
  const { Server } = require('node:net');
  const { listen } = Server.prototype;
  Server.prototype.listen = function (port, ...rest) { return listen.call(this, port, '127.0.0.1', ...rest); };`;

export interface ExampleServer {
  /** Origin, e.g. `http://127.0.0.1:4711`. */
  readonly origin: string;
  stop(): Promise<unknown>;
}

/** Starts an example by the name of its file, without the extension. */
export async function startExampleServer(name: string): Promise<ExampleServer> {
  const port = await freePort();
  const program = `${ON_LOOPBACK} import(${JSON.stringify(`${EXAMPLES}/${name}.js`)});`;
  const env = { ...process.env, PORT: String(port), MCP_PORT: String(port) };
  const child = spawnChild(process.execPath, ['-e', program], { cwd: ROOT, env });
  const origin = `http://127.0.0.1:${port}`;
  await eventually(`${name} serves`, async () => {
    if (child.exitCode !== null) throw new Error(`the example ${name} ended at once`);
    return fetch(origin).then(
      () => true,
      () => false,
    );
  });
  return { origin, stop: () => endChild(child, 'SIGKILL') };
}
