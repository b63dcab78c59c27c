import { createServer, globalAgent } from 'node:http';
import type { AddressInfo } from 'node:net';
import { eventually } from '@toolfleet/testing';
import { expect, it } from 'vitest';
import { httpFetch } from './http-fetch.js';

it('releases the connection after an answer without content, so that the command ends', async () => {
  const server = createServer((_request, response) => response.writeHead(204).end());
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const response = await httpFetch(`http://127.0.0.1:${port}/`, { method: 'DELETE' });
  expect(response.status).toBe(204);
  const isIdle = () => (globalAgent.freeSockets[`127.0.0.1:${port}:`] ?? []).length === 1;
  await eventually('the connection is idle', isIdle);
  globalAgent.destroy();
  await new Promise((resolve) => server.close(resolve));
});
