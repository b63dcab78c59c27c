import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { CliError, EXIT } from '../cli-error.js';
import { type Columns, type Command, type CommandContext, noun, type Options, printTable } from '../command.js';
import { optionValue } from '../command-line.js';
import { interrupted } from '../follow-call.js';

const OF_USER: Options = [['--user <id>', 'another user of the tenant (administrators)']];

/** `fleetctl connections`. */
export const connections: Command = noun('connections', {
  list: { options: OF_USER, run: list },
  connect: {
    words: '<kind/name>',
    usage: '<kind/name> [< key-file]',
    run: (context, source) => connect(context, readSource(source!)),
  },
  revoke: { words: '<kind/name>', options: OF_USER, run: (context, source) => revoke(context, readSource(source!)) },
  reseal: { run: reseal },
});

type Source = { kind: string; name: string };

function readSource(text: string): Source {
  const [, kind, name] = /^(mcp|openapi)\/(.+)$/.exec(text) ?? [];
  if (kind === undefined || name === undefined)
    throw new CliError(
      `"${text}" must be mcp/<name> or openapi/<name>, as "fleetctl connections" lists it`,
      EXIT.usage,
    );
  return { kind, name };
}

async function list(context: CommandContext): Promise<number> {
  const query = { user_id: optionValue(context.line, 'user') };
  const body = await context.gateway().request('GET /api/v1/connections', { query });
  const columns: Columns<(typeof body)[number]> = {
    SOURCE: ({ source }) => source,
    MODE: ({ mode }) => mode,
    STATE: ({ connected, reason }) => (connected ? 'connected' : (reason ?? 'not connected')),
    SINCE: ({ connected_at: at }) => at ?? '',
  };
  return printTable(context, body, columns, 'No source acts as its users');
}

/** Connects by a key, or in a browser. */
async function connect(context: CommandContext, path: Source): Promise<number> {
  const known = await context.gateway().request('GET /api/v1/connections', { query: {} });
  const named = `${path.kind}/${path.name}`;
  const { mode, source = named } =
    known.find((listed) => listed.source.replace(/@.*/, '') === named.replace(/@.*/, '')) ?? {};
  if (mode === 'exchange' || mode === 'id_jag')
    throw new CliError(`${named} acts with your sign-in; there is nothing to connect`);
  return mode === 'connect' ? signIn(context, path, source) : putKey(context, path);
}

/**
 * Waits on a loopback port for the browser to come back from the authorization server (RFC 8252 section 7.3).
 * @param source as it is listed: its address tells the servers of sources apart
 */
async function signIn({ gateway, terminal, signal }: CommandContext, path: Source, source: string): Promise<number> {
  let onRedirect: (query: string) => void;
  const redirected = new Promise<string>((resolve) => (onRedirect = resolve));
  const server = createServer((request, response) => {
    const { pathname, search } = new URL(request.url ?? '/', 'http://127.0.0.1');
    if (pathname !== `/connected/${source}`) return void response.writeHead(404).end();
    response
      .writeHead(200, { 'content-type': 'text/plain' })
      .end('You can close this page and go back to the terminal.\n');
    onRedirect(search.slice(1));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  try {
    const redirect_uri = `http://127.0.0.1:${(server.address() as AddressInfo).port}/connected/${source}`;
    const begun = await gateway().request('POST /api/v1/connections/{kind}/{name}/authorize', {
      path,
      body: { redirect_uri },
    });
    terminal.error(`Open this address in a browser:\n`);
    terminal.out(`${begun.authorization_url}\n`);
    const redirect = await Promise.race([redirected, interrupted(signal)]);
    const connected = await gateway().request('POST /api/v1/connections/finish', { body: { redirect, redirect_uri } });
    terminal.error(`Connected: calls of ${connected.source} act as you\n`);
    return EXIT.ok;
  } finally {
    server.close();
    server.closeAllConnections();
  }
}

/** Reads the key from standard input, so that no list of processes and no shell history has it. */
async function putKey({ gateway, terminal }: CommandContext, path: Source): Promise<number> {
  const api_key = (await terminal.readInput()).trim();
  if (api_key === '')
    throw new CliError('Standard input has no key: fleetctl connections connect … < key-file', EXIT.usage);
  await gateway().request('PUT /api/v1/connections/{kind}/{name}', { path, body: { api_key } });
  terminal.error(`Connected: calls of ${path.kind}/${path.name} act with your key\n`);
  return EXIT.ok;
}

async function revoke({ gateway, line, terminal }: CommandContext, path: Source): Promise<number> {
  const query = { user_id: optionValue(line, 'user') };
  await gateway().request('DELETE /api/v1/connections/{kind}/{name}', { path, query });
  terminal.error(`Revoked: ${path.kind}/${path.name} is no longer connected\n`);
  return EXIT.ok;
}

/** After a new first key of `IDENTITY_SECRET_KEYS` (operators). Repeats the request until nothing is left. */
async function reseal({ gateway, terminal }: CommandContext): Promise<number> {
  for (let sum = 0, before = Number.POSITIVE_INFINITY; ;) {
    const { resealed, left } = await gateway().request('POST /api/v1/connections/reseal');
    sum += resealed;
    terminal.error(`${sum} values sealed again, ${left} left\n`);
    if (left === 0) return EXIT.ok;
    if (left >= before) throw new CliError(`${left} values stay sealed with other keys; run it again`);
    before = left;
  }
}
