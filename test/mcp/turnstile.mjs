/**
 * The suite starts its client scenarios all at once. On a busy machine dozens of processes that load the whole client then
 * keep each other, and the suite's own servers, from the processor until their time limits end, which says nothing about the
 * client. So they take turns: `turnstile` admits a few at a time, and this file, run as a program, waits for its turn and then
 * becomes the client.
 */
import { once } from 'node:events';
import { connect, createServer } from 'node:net';

const AT_ONCE = 4;

/** Admits a few connections at a time; the end of one is the turn of the next. @returns where to wait, and how to end */
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
