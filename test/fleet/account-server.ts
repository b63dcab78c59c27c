/** An upstream inside the test process that knows people by their credentials, as an MCP server and as an OpenAPI service. */
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { toNodeHandler } from '@modelcontextprotocol/node';
import { createMcpHandler, McpServer } from '@modelcontextprotocol/server';

export interface AccountServer {
  /** Origin, e.g. `http://127.0.0.1:4711`, with `/mcp` and `/openapi.json`. */
  readonly origin: string;
  /** Named in its metadata (RFC 9728). */
  authorizationServer?: string;
  /** Accounts by credential; others get 401. */
  readonly accounts: Map<string, string>;
  /** Answers with this status instead; 0: normally. */
  failWith(account: string, status: number): void;
  /** Requests of an account that were served. */
  served(account: string): number;
  stop(): Promise<void>;
}

const document = (origin: string) => ({
  openapi: '3.1.0',
  info: { title: 'Accounts', version: '1.0.0' },
  servers: [{ url: origin }],
  security: [{ key: [] }],
  components: { securitySchemes: { key: { type: 'apiKey', in: 'header', name: 'X-Account-Key' } } },
  paths: { '/whoami': { get: { operationId: 'whoami', responses: { 200: { description: 'The account' } } } } },
});

/** Starts the server on a free loopback port. @param accountOf finds further accounts, such as of access tokens */
export async function startAccountServer(
  accountOf: (credential: string) => Promise<string | undefined> = async () => undefined,
): Promise<AccountServer> {
  const accounts = new Map<string, string>();
  const failing = new Map<string, number>();
  const served = new Map<string, number>();
  const find = async (credential: string) => accounts.get(credential) ?? (await accountOf(credential));
  const credentialOf = ({ headers }: IncomingMessage): string =>
    String(headers['x-account-key'] ?? headers.authorization ?? '').replace(/^bearer /i, '');
  const handlers = new Map<string, ReturnType<typeof toNodeHandler>>();
  const handlerOf = (account: string) => {
    const known = handlers.get(account);
    if (known) return known;
    const made = toNodeHandler(
      createMcpHandler(() => {
        const server = new McpServer({ name: 'accounts', version: '1.0.0' });
        server.registerTool(
          'whoami',
          { description: 'Tells whose account it is.', annotations: { readOnlyHint: true } },
          () => ({
            content: [{ type: 'text', text: account }],
          }),
        );
        return server;
      }),
    );
    handlers.set(account, made);
    return made;
  };
  const server = createServer(async (request, response) => {
    const { origin } = facts;
    if (request.url === '/openapi.json') {
      response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(document(origin)));
      return;
    }
    if (request.url === '/.well-known/oauth-protected-resource/mcp' && facts.authorizationServer !== undefined) {
      const metadata = {
        resource: `${origin}/mcp`,
        authorization_servers: [facts.authorizationServer],
        scopes_supported: ['openid'],
      };
      response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(metadata));
      return;
    }
    const credential = credentialOf(request);
    const account = await find(credential);
    if (account === undefined) {
      // An upstream that echoes requests.
      response.writeHead(401, { 'content-type': 'application/json' }).end(JSON.stringify({ refused: credential }));
      return;
    }
    const status = failing.get(account);
    if (status !== undefined && status !== 0) {
      response.writeHead(status).end();
      return;
    }
    served.set(account, (served.get(account) ?? 0) + 1);
    if (request.url === '/mcp') void handlerOf(account)(request, response);
    else response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify({ account, credential }));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const facts: { origin: string; authorizationServer?: string } = {
    origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
  };
  return Object.assign(facts, {
    accounts,
    failWith: (account: string, status: number) => void failing.set(account, status),
    served: (account: string) => served.get(account) ?? 0,
    stop: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  });
}
