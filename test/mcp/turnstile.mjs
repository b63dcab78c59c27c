/**
 * Limits how many client scenarios of the suite run at once. The suite starts them all together, and on a busy machine dozens of
 * starting processes slow each other and the suite's servers down until scenarios time out. `turnstile` admits a few at a time;
 * run as a program, this file waits for a slot and then runs the client.
 */
import { once } from 'node:events';
import { connect, createServer } from 'node:net';

const AT_ONCE = 4;

/** Admits a few connections at a time; one that closes frees its slot. @returns the port to wait on, and how to close it */
export async function turnstile() {
  const waiting = [];
  let inside = 0;
  const admit = () => {
    while (inside < AT_ONCE && waiting.length > 0) {
      const socket = waiting.shift();
      if (socket.destroyed) continue;
      inside += 1;
      socket.once('close', () => {
        inside -= 1;
        admit();
      });
      socket.write('go');
    }
  };
  const server = createServer((socket) => {
    socket.on('error', () => undefined).resume();
    waiting.push(socket);
    admit();
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  return { port: server.address().port, close: () => server.close() };
}

if (process.argv[1] === import.meta.filename) {
  const turn = connect(Number(process.env.MCP_TURNSTILE_PORT), '127.0.0.1');
  await once(turn, 'data');
  await import('./conformance-client.mjs');
}
