/** Ctrl-C ends every wait, with one line and exit code 130. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { folder, type Route, routes, run, serveGateway, url } from '../fleetctl.fixture.js';

serveGateway();

const answer =
  (body: unknown, status = 200): Route =>
  () => ({ status, body });
/** Answers, and then the user types Ctrl-C. */
const last =
  (body: unknown, status = 200): Route =>
  () => {
    setTimeout(() => process.emit('SIGINT'), 20);
    return { status, body };
  };
/** The connection of `npm start`, in the folder of the spec. */
const localFleet = (): Record<string, string> => {
  const state = join(folder, 'state');
  mkdirSync(state, { recursive: true });
  writeFileSync(join(state, 'local.json'), JSON.stringify({ url, api_key: 'local' }));
  return { TOOLFLEET_URL: '', TOOLFLEET_STATE_DIR: state };
};
const DELIVERY = { event_id: 'evt_1', state: 'pending', error: null };
const PURGE = { id: 'p1', state: 'running', counts: {}, remaining: {}, dry_run: false };
const REFUSED = { error: 'refused by the egress guard', code: 'EGRESS_REFUSED' };

it.each<[string, Record<string, Route>]>([
  [
    'call calculator -a {} --async',
    {
      'POST /api/v1/tools/calculator/execute': answer({ call_id: 'c1' }, 202),
      'GET /api/v1/calls/c1': last({ status: 'running' }),
    },
  ],
  ['calls show c1 --watch', { 'GET /api/v1/calls/c1': last({ status: 'running' }) }],
  [
    'webhooks test w1',
    {
      'POST /api/v1/webhooks/w1/test': answer(DELIVERY, 202),
      'GET /api/v1/webhooks/w1/deliveries': last({ deliveries: [DELIVERY] }),
    },
  ],
  [
    'connections connect mcp/mail',
    {
      'GET /api/v1/connections': answer([{ source: 'mcp/mail', mode: 'connect' }]),
      'POST /api/v1/connections/mcp/mail/authorize': last({ authorization_url: 'https://login.example.com' }),
    },
  ],
  [
    'tenants purge acme --confirm acme',
    { 'POST /api/v1/purges': answer(PURGE, 202), 'GET /api/v1/purges/p1': last(PURGE) },
  ],
  ['tool new awaited', { 'GET /api/v1/tools/awaited': last({ error: 'none', code: 'TOOL_NOT_FOUND' }, 404) }],
  [
    'sources add mcp crm http://127.0.0.1:1/mcp --allow',
    {
      'GET /api/v1/sources': answer([]),
      'POST /api/v1/sources/allow': answer({}),
      'POST /api/v1/sources/mcp': last(REFUSED, 422),
    },
  ],
])('fleetctl %s', async (line, answers) => {
  for (const [route, reply] of Object.entries(answers)) routes.set(route, reply);
  const { code, error } = await run(line.split(' '), { env: localFleet() });
  expect({ code, error }).toEqual({ code: 130, error: expect.stringMatching(/Interrupted|continues/) });
});

it('fleetctl sources add, of a server that does not answer', async () => {
  const server = createServer(() => process.emit('SIGINT'));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const { code, error } = await run(['sources', 'add', `http://127.0.0.1:${port}/`]);
  expect({ code, error }).toEqual({ code: 130, error: 'fleetctl: Interrupted\n' });
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
});

it('fleetctl sources add, of a command that does not answer', async () => {
  setTimeout(() => process.emit('SIGINT'), 200);
  const silent = ['--', process.execPath, '-e', 'setInterval(() => {}, 60_000)'];
  const { code } = await run(['sources', 'add', '--name', 'silent', '--allow', ...silent], { env: localFleet() });
  expect(code).toBe(130);
});
