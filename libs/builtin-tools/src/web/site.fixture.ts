/** A web site of the spec's own on a loopback port. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, beforeEach } from 'vitest';
import { isToolError, type ToolError } from '@toolfleet/contracts';
import { EgressClient } from '@toolfleet/egress';

/** Answers a request. */
export type Handler = (request: IncomingMessage, response: ServerResponse) => void;
let server: Server;
/** Address of the site, and a way out that may reach it. */
export let origin: string;
export let egress: EgressClient;
/** What was asked for since the test began, and how paths answer. */
export const seen: string[] = [];
export const routes = new Map<string, Handler>();
/** Answers with this text. */
export const html =
  (body: string, type = 'text/html; charset=utf-8'): Handler =>
  (_request, response) =>
    response.writeHead(200, { 'content-type': type }).end(body);

beforeAll(async () => {
  server = createServer((request, response) => {
    seen.push(request.url ?? '');
    const path = new URL(request.url ?? '/', 'http://x').pathname;
    const route = routes.get(path);
    if (route) return route(request, response);
    return response
      .writeHead(404, { 'content-type': 'text/html' })
      .end('<html><body><h1>Nothing</h1> here</body></html>');
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  egress = new EgressClient({ allowlist: [], allowedEndpoints: [origin] });
});
afterAll(async () => {
  await egress.close();
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
});
beforeEach(() => {
  seen.length = 0;
  routes.clear();
});

/** The fault of a call that must fail. */
export const faultOf = async (pending: Promise<unknown>): Promise<ToolError> => {
  const fault = await pending.catch((error: unknown) => error);
  if (!isToolError(fault)) throw new Error(`no tool error: ${String(fault)}`);
  return fault;
};
