import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer, type IncomingMessage, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { main } from './main.js';

/** A request the gateway's stand-in got. */
interface Seen {
  method: string;
  path: string;
  body: Record<string, unknown> | undefined;
  key: string | undefined;
}
type Route = (seen: Seen) => { status: number; body?: unknown };

let server: Server;
let url: string;
let folder: string;
const seen: Seen[] = [];
const routes = new Map<string, Route>();
const CALCULATOR = {
  name: 'calculator',
  description: 'Evaluates. Exactly.',
  category: 'data',
  version: '1.0.0',
  timeout_seconds: 5,
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
const RESULT = {
  success: true,
  output: { result: 42 },
  text: '42',
  error: null,
  metadata: { provenance: 'live' },
  execution_time_ms: 3,
  usage: { tokens: 100, cost_usd: 0 },
  call_id: 'c1',
};

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'fleetctl-'));
  server = createServer((request, response) => {
    void readBody(request).then((text) => {
      const one: Seen = {
        method: request.method ?? '',
        path: request.url ?? '',
        body: text === '' ? undefined : (JSON.parse(text) as Record<string, unknown>),
        key: request.headers.authorization,
      };
      seen.push(one);
      const route = routes.get(`${one.method} ${one.path.split('?')[0]}`);
      const { status, body } = route?.(one) ?? {
        status: 404,
        body: { error: 'No such tool', code: 'TOOL_NOT_FOUND', hint: 'Check the name.', call_id: 'c9' },
      };
      response
        .writeHead(status, { 'content-type': 'application/json' })
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

async function readBody(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString('utf8');
}

/** Runs a command line as a user would; `interactive` as in a terminal. */
async function run(
  argv: string[],
  options: { env?: Record<string, string>; input?: string; cwd?: string; interactive?: boolean } = {},
) {
  let out = '';
  let error = '';
  const terminal = {
    out: (text: string) => void (out += text),
    error: (text: string) => void (error += text),
    width: undefined,
    interactive: options.interactive ?? false,
    colours: false,
    readInput: () => Promise.resolve(options.input ?? ''),
  };
  const env = { TOOLFLEET_URL: url, TOOLFLEET_API_KEY: 'the-key', HOME: folder, ...options.env };
  const code = await main(argv, terminal, { env, cwd: options.cwd ?? folder });
  return { code, out, error };
}
const sentArguments = () => seen.find((one) => one.method === 'POST')?.body?.['arguments'];

describe('tools, describe, health', () => {
  it('lists tools as a table and as JSON', async () => {
    const { out, code } = await run(['tools', '--category', 'data']);
    expect(code).toBe(0);
    expect(out.split('\n')).toEqual([
      'NAME          CATEGORY  COST    DESCRIPTION',
      'calculator    data      free    Evaluates.',
      'other (away)  data      $0.004  Evaluates.',
      '',
    ]);
    expect(seen[0]).toMatchObject({ path: '/api/v1/tools?category=data', key: 'Bearer the-key' });
    expect(JSON.parse((await run(['tools', '--json'])).out)).toHaveLength(2);
  });

  it('describes a tool', async () => {
    const { out } = await run(['describe', 'calculator']);
    expect(out).toContain('calculator 1.0.0  (data, free, at most 5 s)');
    expect(out).toMatch(/expression \*\s+string/);
    expect(out).toMatch(/tags\s+array of integer/);
    expect(out).toContain('fleetctl call calculator --expression …');
  });

  it('tells whether the fleet is ready', async () => {
    routes.set('GET /health', () => ({ status: 200, body: { status: 'ok' } }));
    routes.set('GET /readiness', () => ({ status: 503, body: { status: 'not ready', parts: { nats: 'away' } } }));
    const { code, out } = await run(['health']);
    expect([code, out]).toEqual([1, `${url}  alive, but not ready\n  nats: away\n`]);
    routes.set('GET /readiness', () => ({ status: 200, body: {} }));
    expect((await run(['health'])).code).toBe(0);
  });
});

describe('call', () => {
  it.each<[string[], unknown]>([
    [['--expression', '6*7'], { expression: '6*7' }],
    [['--expression=6*7', '--digits', '3', '--exact'], { expression: '6*7', digits: 3, exact: true }],
    [['--no-exact', '--tags', '1', '--tags', '2'], { exact: false, tags: [1, 2] }],
    [['--tags', '[1, 2]', '--extra', '{"a":1}'], { tags: [1, 2], extra: { a: 1 } }],
    [['expression=2+2', 'digits=5', 'extra:={"b":[1]}'], { expression: '2+2', digits: 5, extra: { b: [1] } }],
    [['--arguments', '{"expression":"1"}', 'digits=1'], { expression: '1', digits: 1 }],
    [['--arguments', '-'], { expression: 'from input' }],
    [['--digits', '-5'], { digits: -5 }],
    [['--digits', 'many'], { digits: 'many' }],
    [['--expression', '5'], { expression: '5' }],
    [['--', 'expression=--help'], { expression: '--help' }],
  ])('%j', async (words, expected) => {
    const { code, out } = await run(['call', 'calculator', ...words], { input: '{"expression":"from input"}' });
    expect([code, out]).toEqual([0, '42\n']);
    expect(sentArguments()).toEqual(expected);
  });

  it('takes --url for the tool’s when the tool has such an argument', async () => {
    const page = {
      ...CALCULATOR,
      name: 'page',
      parameters: { type: 'object', properties: { url: { type: 'string' } } },
    };
    routes.set('GET /api/v1/tools/page', () => ({ status: 200, body: page }));
    routes.set('POST /api/v1/tools/page/execute', () => ({ status: 200, body: RESULT }));
    await run(['call', 'page', '--url', 'https://a.example/']);
    expect(sentArguments()).toEqual({ url: 'https://a.example/' });
    seen.length = 0;
    await run(['-u', url, 'call', 'page', 'url=https://b.example/'], { env: { TOOLFLEET_URL: 'http://127.0.0.1:1' } });
    expect(sentArguments()).toEqual({ url: 'https://b.example/' });
    seen.length = 0;
    await run(['call', 'calculator', '--url', url, '-a', '{"expression":"1"}'], {
      env: { TOOLFLEET_URL: 'http://127.0.0.1:1' },
    });
    expect(sentArguments()).toEqual({ expression: '1' });
  });

  it('reads arguments from a file', async () => {
    await writeFile(join(folder, 'args.json'), '{"expression":"7"}');
    await run(['call', 'calculator', '-a', `@${join(folder, 'args.json')}`]);
    expect(sentArguments()).toEqual({ expression: '7' });
    expect(seen).toHaveLength(1); // JSON needs no schema
  });

  it('sends options of the call beside the arguments', async () => {
    await run([
      'call',
      'calculator',
      '-a',
      '{}',
      '--session-id',
      's',
      '--timeout-ms',
      '500',
      '--dry-run',
      '--no-retry',
      '--idempotency-key',
      'k',
    ]);
    expect(seen.at(-1)?.body).toEqual({
      arguments: {},
      session_id: 's',
      timeout_ms: 500,
      dry_run: true,
      no_retry: true,
      idempotency_key: 'k',
    });
  });

  it('tells failures and refusals, with exit codes', async () => {
    routes.set('POST /api/v1/tools/calculator/execute', () => ({
      status: 200,
      body: { ...RESULT, success: false, output: null, text: '', error: 'Division by zero' },
    }));
    expect(await run(['call', 'calculator', '-a', '{}'])).toMatchObject({
      code: 1,
      out: '',
      error: 'failed: Division by zero\n  call_id: c1\n',
    });
    expect(await run(['call', 'nothing', '-a', '{}'])).toMatchObject({
      code: 1,
      error: 'fleetctl: No such tool (TOOL_NOT_FOUND)\n  Check the name.\n  call_id: c9\n',
    });
    expect(JSON.parse((await run(['call', 'nothing', '-a', '{}', '--json'])).out)).toMatchObject({
      code: 'TOOL_NOT_FOUND',
    });
    routes.set('POST /api/v1/tools/calculator/execute', () => ({
      status: 401,
      body: { error: 'No key', code: 'UNAUTHENTICATED' },
    }));
    expect((await run(['call', 'calculator', '-a', '{}'])).code).toBe(4);
    expect(await run(['call', 'calculator', '-a', '{}', '--url', 'http://127.0.0.1:1'])).toMatchObject({
      code: 3,
      error: expect.stringContaining('No fleet answers'),
    });
  });

  it.each([
    [['call']],
    [['call', 'calculator', 'what']],
    [['call', 'calculator', '-a', '[1]']],
    [['call', 'calculator', '-a', '{']],
    [['call', 'calculator', '--timeout-ms', 'x']],
    [['nonsense']],
    [['tools', '--strange']],
    [['-x']],
  ])('%j is used wrongly', async (argv) => {
    expect(await run(argv)).toMatchObject({ code: 2, error: expect.stringMatching(/^fleetctl: /) });
  });

  it('follows an asynchronous call with a progress line', async () => {
    let asked = 0;
    routes.set('POST /api/v1/tools/calculator/execute', (one) => ({
      status: one.body?.['mode'] === 'async' ? 202 : 500,
      body: { call_id: 'c7', status: 'accepted' },
    }));
    routes.set('GET /api/v1/calls/c7', () => {
      asked += 1;
      return {
        status: 200,
        body:
          asked < 4
            ? { call_id: 'c7', state: 'claimed', progress: { progress: asked, total: 4, message: 'working' } }
            : { call_id: 'c7', state: 'succeeded', result: RESULT },
      };
    });
    const { code, out, error } = await run(['call', 'calculator', '-a', '{}', '--async'], { interactive: true });
    expect([code, out]).toEqual([0, '42\n']);
    expect(error).toMatch(/\[█+░+\] \d\/4 working/);
    expect(await run(['call', 'calculator', '-a', '{}', '--async', '--no-wait'])).toMatchObject({
      code: 0,
      out: 'c7\n',
    });
    expect(await run(['jobs', 'c7', '--watch'])).toMatchObject({ code: 0, out: '42\n' });
    routes.set('GET /api/v1/calls/c8', () => ({ status: 200, body: { call_id: 'c8', state: 'expired' } }));
    expect(await run(['jobs', 'c8', '--watch'])).toMatchObject({ code: 1, error: expect.stringContaining('expired') });
    routes.set('DELETE /api/v1/calls/c8', () => ({ status: 200, body: { call_id: 'c8', state: 'cancelled' } }));
    expect(await run(['jobs', 'cancel', 'c8'])).toMatchObject({ code: 0, out: 'c8  cancelled\n' });
  });

  it('shows progress from the event stream', async () => {
    routes.set('POST /api/v1/tools/calculator/execute', () => ({
      status: 202,
      body: { call_id: 'c5', status: 'accepted' },
    }));
    let asked = 0;
    routes.set('GET /api/v1/calls/c5', () => ({
      status: 200,
      body: ++asked > 4 ? { call_id: 'c5', status: 'succeeded', result: RESULT } : { call_id: 'c5', status: 'claimed' },
    }));
    routes.set('GET /api/v1/calls/c5/events', () => ({
      status: 200,
      body: 'id: 1-0\nevent: progress\ndata: {"message":"half","progress":1,"total":2}\n\n',
    }));
    const { out, error } = await run(['call', 'calculator', '-a', '{}', '--async'], { interactive: true });
    expect(out).toBe('42\n');
    expect(error).toContain('1/2 half');
  });

  it('shows no control characters of a tool', async () => {
    routes.set('POST /api/v1/tools/calculator/execute', () => ({
      status: 200,
      body: { ...RESULT, text: 'a\u001b]0;title\u0007b' },
    }));
    expect((await run(['call', 'calculator', '-a', '{}'])).out).toBe('a]0;titleb\n');
  });
});

describe('keys and usage', () => {
  it('lists, creates and revokes keys', async () => {
    const key = {
      id: 'k1',
      tenant_id: 'acme',
      client: 'ci',
      tools: ['*'],
      roles: [],
      expires_at: null,
      revoked_at: null,
      last_used_at: null,
    };
    routes.set('GET /api/v1/keys', () => ({ status: 200, body: [key] }));
    routes.set('POST /api/v1/keys', () => ({ status: 201, body: { ...key, token: 'tf_dev_token' } }));
    routes.set('DELETE /api/v1/keys/k1', () => ({ status: 204 }));
    expect((await run(['keys'])).out).toMatch(/k1\s+ci\s+acme\s+\*\s+-?\s+valid\s+never/);
    expect((await run(['keys', 'create', 'ci', '--tools', 'calc*, web_*', '--expires', '2d', '--admin'])).out).toBe(
      'tf_dev_token\n',
    );
    expect(seen.at(-1)?.body).toEqual({
      client: 'ci',
      tools: ['calc*', 'web_*'],
      expires_in_seconds: 172_800,
      roles: ['admin'],
    });
    expect((await run(['keys', 'revoke', 'k1'])).out).toBe('Revoked k1\n');
    expect((await run(['keys', 'create', 'ci', '--expires', 'soon'])).code).toBe(2);
  });

  it('shows usage and budgets', async () => {
    routes.set('GET /api/v1/usage', () => ({
      status: 200,
      body: {
        tenant_id: 'acme',
        rows: [{ day: '2026-11-21', tool_name: 'calculator', calls: 3, tokens: 300, cost_usd: 0.01 }],
      },
    }));
    routes.set('GET /api/v1/budgets', () => ({
      status: 200,
      body: {
        budgets: [
          {
            scope: 'tenant',
            limit_usd: 1,
            spent_usd: 0.01,
            held_usd: 0,
            limit_tokens: null,
            spent_tokens: 0,
            held_tokens: 0,
          },
        ],
      },
    }));
    const { out } = await run(['usage', '--from', '2026-11-01']);
    expect(seen.map((one) => one.path).toSorted()).toEqual([
      '/api/v1/budgets',
      '/api/v1/usage?group_by=day%2Ctool&from=2026-11-01',
    ]);
    expect(out).toMatch(/2026-11-21\s+calculator\s+3\s+300\s+0.01/);
    expect(out).toMatch(/tenant\s+1\s+0.01\s+0\s+none\s+0/);
  });
});

describe('where the fleet is', () => {
  it('is found in .toolfleet/local.json above the folder, whose key goes nowhere else', async () => {
    const project = join(folder, 'project');
    await mkdir(join(project, '.toolfleet'), { recursive: true });
    await mkdir(join(project, 'deep/inside'), { recursive: true });
    await writeFile(join(project, '.toolfleet/local.json'), JSON.stringify({ url, api_key: 'local-key' }));
    const bare = { TOOLFLEET_URL: '', TOOLFLEET_API_KEY: '' };
    const env = Object.fromEntries(Object.entries({ HOME: folder, ...bare }).filter(([, value]) => value !== ''));
    const terminal = {
      out: () => {},
      error: () => {},
      width: undefined,
      interactive: false,
      colours: false,
      readInput: () => Promise.resolve(''),
    };
    expect(await main(['tools'], terminal, { env, cwd: join(project, 'deep/inside') })).toBe(0);
    expect(seen.at(-1)?.key).toBe('Bearer local-key');
    await main(['tools', '--url', url.replace('127.0.0.1', 'localhost')], terminal, { env, cwd: project });
    expect(seen.at(-1)?.key).toBeUndefined();
    expect(await main(['tools'], terminal, { env, cwd: tmpdir() })).toBe(3);
  });

  it('is kept in the user’s folder by config, readable by nobody else', async () => {
    const env = { XDG_CONFIG_HOME: join(folder, 'xdg') };
    await run(['config', 'set', 'url', url], { env });
    await run(['config', 'set', 'api_key', '-'], { env, input: 'tf_secret_key_value\n' });
    const { out } = await run(['config'], { env });
    expect(out).toContain(`url: ${url}`);
    expect(out).not.toContain('tf_secret_key_value');
    expect(JSON.parse(await readFile(join(folder, 'xdg/fleetctl/config.json'), 'utf8'))).toEqual({
      url,
      api_key: 'tf_secret_key_value',
    });
  });
});

describe('tool new, completion, help', () => {
  it('writes a tool that loads', async () => {
    const { out, code } = await run(['tool', 'new', 'word_count']);
    expect([code, out]).toEqual([0, 'plugins/word-count.tool.mjs\n']);
    const module = (await import(pathToFileURL(join(folder, 'plugins/word-count.tool.mjs')).href)) as {
      default: (api: object) => { handler: (args: object, run: object) => unknown; inputSchema: object };
    };
    const tool = module.default({
      defineTool: (spec: object) => spec,
      ok: (output: object) => output,
      ToolError: Error,
    });
    expect(tool.handler({ text: 'one two' }, { progress: () => {} })).toEqual({ words: 2 });
    expect(await run(['tool', 'new', 'word_count'])).toMatchObject({
      code: 1,
      error: expect.stringContaining('exists'),
    });
    expect((await run(['tool', 'new', '../evil'])).code).toBe(2);
  });

  it('completes names and arguments', async () => {
    for (const shell of ['bash', 'zsh', 'fish']) expect((await run(['completion', shell])).out).toContain('fleetctl');
    expect((await run(['completion', 'names'])).out).toBe('calculator\nother\n');
    expect((await run(['completion', 'arguments', 'calculator'])).out).toContain('--expression\n');
    expect((await run(['completion', 'tcsh'])).code).toBe(2);
  });

  it('has help for every command', async () => {
    const general = (await run(['help'])).out;
    for (const name of [
      'tools',
      'describe',
      'call',
      'jobs',
      'usage',
      'keys',
      'health',
      'tool new',
      'openapi',
      'config',
      'completion',
    ]) {
      expect(general).toContain(name);
      expect((await run([...name.split(' '), '--help'])).out).toContain('fleetctl');
    }
  });

  const binary = join(import.meta.dirname, '../bin/fleetctl.mjs');
  it.skipIf(!existsSync(join(import.meta.dirname, '../dist/main.js')))('runs as a program', () => {
    const env = { ...process.env, TOOLFLEET_URL: '', TOOLFLEET_API_KEY: '' };
    expect(execFileSync(process.execPath, [binary, '--version'], { encoding: 'utf8', env })).toBe('0.1.0\n');
  });
});
