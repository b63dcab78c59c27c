/** The CLI in a spec: run as a user would run it, against a stand-in of the gateway that records its requests. */
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer, type IncomingMessage, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach } from 'vitest';
import { main } from './main.js';
import { terminalOn } from './terminal.js';

/** A request the gateway's stand-in got. */
export interface Seen {
  method: string;
  path: string;
  body: Record<string, unknown> | undefined;
  key: string | undefined;
}
export type Route = (seen: Seen) => { status: number; body?: unknown; type?: string };

let server: Server;
/** Address of the stand-in, and a folder of the spec's own. */
export let url: string;
export let folder: string;
/** Its requests since the test began, and how it answers: `METHOD /path`. */
export const seen: Seen[] = [];
export const routes = new Map<string, Route>();
export const CALCULATOR = {
  name: 'calculator',
  description: 'Evaluates. Exactly.',
  category: 'data',
  version: '1.0.0',
  timeout_seconds: 5,
  rate_limit: 60,
  memory_limit_mb: null,
  max_request_bytes: 8 * 2 ** 20,
  max_result_bytes: 5 * 2 ** 20,
  cost_per_use: 0,
  parameters: {
    type: 'object',
    properties: {
      expression: { type: 'string', description: 'What' },
      digits: { type: 'integer', default: 2 },
      exact: { type: 'boolean' },
      tags: { type: 'array', items: { type: 'integer' } },
      extra: { type: 'object' },
    },
    required: ['expression'],
  },
};
export const RESULT = {
  success: true,
  output: { result: 42 },
  text: '42',
  error: null,
  metadata: { provenance: 'live' },
  execution_time_ms: 3,
  usage: { tokens: 100, cost_usd: 0 },
  call_id: 'c1',
};

/** Runs the stand-in for the spec that calls it. */
export function serveGateway(): void {
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'fleetctl-'));
    // It keeps connections: on a busy machine, a request would be sent on one that it has just closed.
    server = createServer({ keepAliveTimeout: 0 }, (request, response) => {
      void readBody(request).then((text) => {
        const one: Seen = {
          method: request.method ?? '',
          path: request.url ?? '',
          body: text === '' ? undefined : (JSON.parse(text) as Record<string, unknown>),
          key: request.headers.authorization,
        };
        seen.push(one);
        const route = routes.get(`${one.method} ${one.path.split('?')[0]}`);
        const {
          status,
          body,
          type = 'application/json',
        } = route?.(one) ?? {
          status: 404,
          type: undefined,
          body: { error: 'No such tool', code: 'TOOL_NOT_FOUND', hint: 'Check the name.', call_id: 'c9' },
        };
        response
          .writeHead(status, { 'content-type': type })
          .end(body === undefined || typeof body === 'string' ? body : JSON.stringify(body));
      });
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  });
  afterAll(async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
    await rm(folder, { recursive: true, force: true });
  });
  beforeEach(() => {
    seen.length = 0;
    routes.clear();
    routes.set('GET /api/v1/tools', () => ({
      status: 200,
      body: [CALCULATOR, { ...CALCULATOR, name: 'other', cost_per_use: 0.004, available: false }],
    }));
    routes.set('GET /api/v1/tools/calculator', () => ({ status: 200, body: CALCULATOR }));
    routes.set('POST /api/v1/tools/calculator/execute', () => ({ status: 200, body: RESULT }));
  });
}

async function readBody(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString('utf8');
}

/** Runs a command line as a user would; `interactive` as in a terminal. */
export async function run(
  argv: string[],
  options: {
    env?: Record<string, string>;
    input?: string;
    cwd?: string;
    interactive?: boolean;
    /** Columns of a terminal as standard output; without it, a pipe. */
    width?: number;
    colours?: boolean;
  } = {},
) {
  let out = '';
  let error = '';
  const terminal = terminalOn({
    out: (data: string | Uint8Array) =>
      void (out += typeof data === 'string' ? data : Buffer.from(data).toString('base64')),
    error: (text: string) => void (error += text),
    interactive: options.interactive ?? false,
    width: options.width,
    colours: options.colours ?? false,
    readInput: () => Promise.resolve(options.input ?? ''),
  });
  const env = { TOOLFLEET_URL: url, TOOLFLEET_API_KEY: 'the-key', HOME: folder, ...options.env };
  const code = await main(argv, terminal, { env, cwd: options.cwd ?? folder });
  return { code, out, error };
}
/** Arguments of the call that was sent. */
export const sentArguments = () => seen.find((one) => one.method === 'POST')?.body?.['arguments'];
