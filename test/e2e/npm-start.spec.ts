/**
 * `npm start` as a user runs it, in a shell that has read the file of a fleet that is gone: free ports, its own state folder, real brokers,
 * all services and samples. Calls every kind
 * of tool over HTTP and NATS, gives bad input, stops the fleet, and looks for processes left behind.
 */
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { lstatSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { Agent, request as httpRequest, type IncomingMessage } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { json } from 'node:stream/consumers';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { parseEnv, promisify } from 'node:util';
import { eventually, PATIENCE_MS } from '@toolfleet/testing';
import { connect, headers, type NatsConnection } from 'nats';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { NpmStart } from '../fleet/npm-start.js';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const KEY = 'e2e-developer-key-0123456789';

interface LocalFleet {
  url: string;
  api_key: string;
  nats_url: string;
  redis_url: string;
  services: { name: string; pid: number; admin_url: string }[];
  broker_pids: Record<string, number>;
}

const { shellFile } = (await import(pathToFileURL(join(ROOT, 'tools/local/shell-file.mjs')).href)) as {
  shellFile: (path: string, fleet: Omit<LocalFleet, 'services' | 'broker_pids'>) => string;
};

/** A fleet that has stopped: the first start finds its file. */
const GONE = {
  url: 'http://127.0.0.1:1',
  api_key: 'key-of-a-fleet-that-is-gone',
  nats_url: 'nats://127.0.0.1:1',
  redis_url: 'redis://127.0.0.1:1',
};

/** Content of the user's file before the start: one entry is invalid. */
const USER_FILE = `# mine
mcp_tools: { broken: { url: ftp://a.example, func_name: f } }
budget: { tenants: { local: { max_tokens_per_day: 1000000 } } }
`;

let stateDir: string;
let runner: NpmStart;
let fleet: LocalFleet;
let nats: NatsConnection;

const isAlive = (pid: number): boolean => {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
};

const until: NpmStart['until'] = (...condition) => runner.until(...condition);

interface Answer {
  status: number;
  headers: Headers;
  body: any; // oxlint-disable-line typescript/no-explicit-any -- bodies of every shape are inspected here
}

async function http(method: string, path: string, body?: unknown, key: string | null = KEY): Promise<Answer> {
  const response = await fetch(`${fleet.url}${path}`, {
    method,
    headers: {
      ...(key === null ? {} : { authorization: `Bearer ${key}` }),
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
    },
    ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
    signal: AbortSignal.timeout(PATIENCE_MS),
  });
  const text = await response.text();
  return { status: response.status, headers: response.headers, body: text === '' ? undefined : JSON.parse(text) };
}

const call = (tool: string, args: unknown) => http('POST', `/api/v1/tools/${tool}/execute`, { arguments: args });

beforeAll(async () => {
  stateDir = mkdtempSync(join(tmpdir(), 'toolfleet-e2e-'));
  writeFileSync(join(stateDir, 'fleet.yaml'), USER_FILE, { mode: 0o600 });
  const sourced = join(stateDir, 'env');
  writeFileSync(sourced, shellFile(sourced, GONE), { mode: 0o600 });
  const env = { TOOLFLEET_STATE_DIR: stateDir, TOOLFLEET_DEV_API_KEY: KEY, APPROVAL_ENABLED: 'true' };
  runner = await NpmStart.start(env, ['sh', '-c', '. "$0"; exec npm start --silent -- --workers 2', sourced]);
  fleet = JSON.parse(readFileSync(join(stateDir, 'local.json'), 'utf8')) as LocalFleet;
  nats = await connect({ servers: fleet.nats_url });
  // Sources announce their tools after they are ready.
  const wanted = ['calculator', 'execute_python', 'parcels_getParcel', 'sample_add', 'echo_function'];
  await until(`${wanted.join(', ')} are listed`, async () => {
    const names = new Set(((await http('GET', '/api/v1/tools')).body as { name: string }[]).map((tool) => tool.name));
    return wanted.every((name) => names.has(name));
  });
});

afterAll(async () => {
  await nats?.close();
  await runner?.stop();
  if (stateDir) rmSync(stateDir, { recursive: true, force: true });
});

describe('npm start', () => {
  it('prints one screen with the key and a line for each kind of tool', () => {
    for (const part of [KEY, fleet.url, '/metrics', 'fleet.yaml']) {
      expect(runner.output).toContain(part);
    }
  });

  it('names a variable of Shannon that has no effect, once, with the page', () => {
    const lines = runner.output.split('\n').filter((line) => line.includes('APPROVAL_ENABLED'));
    expect(lines).toEqual([
      expect.stringMatching(/environment: APPROVAL_ENABLED has no effect; docs\/coming-from-elsewhere\.md/),
    ]);
  });

  it('prints commands that work as printed', async () => {
    const commands = runner.output.split('\n').filter((line) => /^ {2}(\. |tool )/.test(line));
    const { stdout } = await promisify(execFile)('sh', ['-c', commands.join('\n')]);
    const answers = stdout.trim().split('\n');
    expect(answers.map((answer) => JSON.parse(answer).text)).toEqual([
      '14',
      '45',
      expect.stringContaining('P-1001'),
      '42',
    ]);
  });

  it('takes nothing from the variables of a fleet that is gone, and writes the same ones', () => {
    const written = readFileSync(join(stateDir, 'env'), 'utf8');
    expect(written).toBe(shellFile(join(stateDir, 'env'), fleet));
    expect(parseEnv(written)).toEqual({
      TOOLFLEET_URL: fleet.url,
      TOOLFLEET_API_KEY: KEY,
      TOOLFLEET_NATS_URL: fleet.nats_url,
      TOOLFLEET_REDIS_URL: fleet.redis_url,
    });
    expect(Object.keys(fleet.broker_pids).toSorted()).toEqual(['nats', 'redis']);
  });

  it('writes a file with which the example of docs/nats-api.md runs unchanged', async () => {
    const page = readFileSync(join(ROOT, 'docs/nats-api.md'), 'utf8');
    const [, example] = /^```js\n(import [^\n]* from 'nats';\n[^]*?)^```/m.exec(page)!;
    const run = '. "$0"; exec node --input-type=module --eval "$1"';
    const { stdout } = await promisify(execFile)('sh', ['-c', run, join(stateDir, 'env'), example!], { cwd: ROOT });
    expect(stdout).toContain('42');
  });

  it('prints the addresses of the fleet that runs, and starts no second one', async () => {
    const { stdout } = await promisify(execFile)('npm', ['start', '--silent'], {
      cwd: ROOT,
      env: { ...process.env, TOOLFLEET_STATE_DIR: stateDir },
    });
    expect(stdout).toContain('toolfleet already runs here');
    expect(stdout.slice(stdout.indexOf('Console'))).toBe(
      runner.output.slice(runner.output.indexOf('Console'), runner.output.indexOf('URL-OR-FILE --allow\n') + 20),
    );
  });

  it('calls a builtin tool', async () => {
    const { status, body } = await call('calculator', { expression: '3 * (3 + 4)' });
    expect(status).toBe(200);
    expect(body).toMatchObject({
      success: true,
      output: { result: 21 },
      error: null,
      usage: { tokens: 100, cost_usd: 0 },
    });
    expect(body.text).toContain('21');
  });

  it('runs Python in the sandbox, which has no network and no files', async () => {
    const sum = await call('execute_python', { code: 'result = sum(x * x for x in range(10))\nprint("done")' });
    expect(sum.body).toMatchObject({ success: true, output: { value: 285, stdout: 'done\n' } });
    const socket = await call('python_executor', {
      code: 'import socket\nsocket.create_connection(("127.0.0.1", 80))',
    });
    expect(socket.status).toBe(200);
    expect(socket.body.success).toBe(false);
  });

  it('calls an operation of an OpenAPI service', async () => {
    const parcel = await call('parcels_getParcel', { parcel_id: 'P-1001' });
    expect(parcel.body).toMatchObject({ success: true, metadata: { http_status: 200 } });
    expect(JSON.stringify(parcel.body.output)).toContain('P-1001');
    const missing = await call('parcels_getParcel', { parcel_id: 'P-9999' });
    expect(missing).toMatchObject({ status: 200, body: { success: false, metadata: { http_status: 404 } } });
    expect((await call('parcels.getParcel', { parcel_id: 'P-1001' })).body.success).toBe(true);
    let kept: Answer | undefined;
    await eventually('arguments and answer of the failed call are kept', async () => {
      kept = await http('GET', `/api/v1/calls/${missing.body.call_id}/body`);
      return kept.status === 200;
    });
    expect(kept!.body.body).toMatchObject({
      arguments: { parcel_id: 'P-9999' },
      errors: [{ code: 'UPSTREAM_ERROR' }],
      upstream: { http_status: 404, answer: expect.anything() },
    });
  });

  it('calls a tool of an MCP server and a plain function endpoint', async () => {
    expect((await call('sample_add', { a: 2, b: 40 })).body).toMatchObject({ success: true, output: { sum: 42 } });
    expect((await call('echo_function', { text: 'hello' })).body.success).toBe(true);
  });

  it('answers all four kinds over NATS in plain JSON', async () => {
    const request = async (subject: string, message: unknown, key?: string) => {
      const head = headers();
      if (key) head.set('Authorization', `Bearer ${key}`);
      const reply = await nats.request(subject, JSON.stringify(message), { timeout: 30_000, headers: head });
      return { code: reply.headers?.get('Nats-Service-Error-Code') ?? '', body: JSON.parse(reply.string()) };
    };
    for (const [name, args] of [
      ['calculator', { expression: '1 + 1' }],
      ['execute_python', { code: '1 + 1' }],
      ['parcels_getParcel', { parcel_id: 'P-1001' }],
      ['sample_add', { a: 1, b: 1 }],
    ]) {
      const { body } = await request('tool.call', { name, arguments: args }, KEY);
      expect(body, String(name)).toMatchObject({ success: true });
    }
    expect((await request('tool.call', { name: 'nope', arguments: {} })).body).toMatchObject({
      code: 'TOOL_NOT_FOUND',
    });
    expect(
      await request('tool.call', { name: 'calculator', arguments: { expression: '1' } }, 'not-the-key-not-the-key'),
    ).toMatchObject({ code: '401' });
    expect((await request('tool.call', { name: 'calculator' })).body).toMatchObject({ code: 'REQUEST_INVALID' });
    const batch = await request('tool.batch', {
      calls: [
        { name: 'calculator', arguments: { expression: '6 * 7' } },
        { name: 'nope', arguments: {} },
      ],
    });
    expect(batch.body.map((record: { success: boolean }) => record.success)).toEqual([true, false]);
    const list = await request('tool.list', { category: 'data' });
    expect(list.body.map((tool: { name: string }) => tool.name)).toContain('calculator');
  });

  it('refuses bad input with the right status and names the field', async () => {
    expect(await call('no_such_tool', {})).toMatchObject({ status: 404, body: { code: 'TOOL_NOT_FOUND' } });
    expect(await http('GET', '/api/v1/tools/no_such_tool')).toMatchObject({ status: 404 });
    expect(await http('POST', '/api/v1/tools/calculator/execute', '{"arguments":')).toMatchObject({ status: 400 });
    expect(await http('POST', '/api/v1/tools/calculator/execute', {})).toMatchObject({
      status: 400,
      body: { details: { fields: ['arguments'] } },
    });
    const faults = await call('sample_add', { a: 'x' });
    expect(faults.status).toBe(400);
    expect(faults.body.details.faults.map((fault: { path: string }) => fault.path)).toEqual(
      expect.arrayContaining(['/a', '/b']),
    );
    expect(await http('GET', '/api/v1/tools', undefined, null)).toMatchObject({
      status: 401,
      body: { code: 'UNAUTHENTICATED' },
    });
    expect(await http('GET', '/api/v1/tools', undefined, 'wrong-key-wrong-key-wrong')).toMatchObject({ status: 401 });
    expect(
      await http(
        'POST',
        '/api/v1/tools/calculator/execute',
        JSON.stringify({ arguments: { expression: 'x'.repeat(9 * 1024 * 1024) } }),
      ),
    ).toMatchObject({
      status: 413,
      body: { code: 'PAYLOAD_TOO_LARGE' },
    });
  });

  it('never lists or runs a dangerous tool for public callers', async () => {
    const names = ((await http('GET', '/api/v1/tools?exclude_dangerous=false')).body as { name: string }[]).map(
      (tool) => tool.name,
    );
    expect(names).not.toContain('file_write');
    for (const answer of [
      await http('GET', '/api/v1/tools/file_write'),
      await call('file_write', { path: 'x', content: 'y' }),
    ]) {
      expect(answer.status).toBe(403);
      expect(answer.body).toEqual({ error: 'Tool not available via direct execution' });
    }
  });

  it('pages the list', async () => {
    const all = ((await http('GET', '/api/v1/tools')).body as { name: string }[]).map((tool) => tool.name);
    const paged: string[] = [];
    let path: string | undefined = '/api/v1/tools?limit=5';
    while (path) {
      const page: Answer = await http('GET', path);
      paged.push(...(page.body as { name: string }[]).map((tool) => tool.name));
      path = /<([^>]+)>; rel="next"/.exec(page.headers.get('link') ?? '')?.[1];
    }
    expect(paged).toEqual(all);
    for (const cursor of ['garbage', '%25%25', 'YWJj=', '']) {
      expect(await http('GET', `/api/v1/tools?limit=5&cursor=${cursor}`)).toMatchObject({
        status: 400,
        body: { code: 'REQUEST_INVALID', details: { fields: ['cursor'] } },
      });
    }
  });

  it('runs a call asynchronously and streams its events', async () => {
    const accepted = await http('POST', '/api/v1/tools/calculator/execute', {
      arguments: { expression: '20 + 22' },
      mode: 'async',
    });
    expect(accepted).toMatchObject({ status: 202, body: { status: 'accepted' } });
    const id = accepted.body.call_id as string;
    const events = await fetch(`${fleet.url}/api/v1/calls/${id}/events`, {
      headers: { authorization: `Bearer ${KEY}` },
      signal: AbortSignal.timeout(PATIENCE_MS),
    });
    const text = await events.text();
    expect([...text.matchAll(/^event: (\w+)$/gm)].map((match) => match[1])).toEqual(['accepted', 'started', 'done']);
    expect(await http('GET', `/api/v1/calls/${id}`)).toMatchObject({
      body: { status: 'succeeded', result: { output: { result: 42 } } },
    });
    expect(await http('GET', '/api/v1/calls/not-a-call')).toMatchObject({ status: 404 });
  });

  it('cancels a running call, once, and leaves ended ones as they are', async () => {
    const begin = (code: string) =>
      http('POST', '/api/v1/tools/execute_python/execute', { arguments: { code }, mode: 'async' });
    const running = (await begin('while True: pass')).body.call_id as string;
    const getState = async (id: string) => (await http('GET', `/api/v1/calls/${id}`)).body.status as string;
    await until('it runs', async () => (await getState(running)) === 'claimed');
    // A busy machine may need more than the two seconds the answer waits for the end.
    const cancelled = await http('DELETE', `/api/v1/calls/${running}`);
    expect([
      { status: 200, body: { call_id: running, status: 'cancelled' } },
      { status: 202, body: { call_id: running, status: 'claimed' } },
    ]).toContainEqual({ status: cancelled.status, body: cancelled.body });
    await until('it is cancelled', async () => (await getState(running)) === 'cancelled');
    // The usage of the run is charged, and the answer shows it.
    expect((await http('GET', `/api/v1/calls/${running}`)).body.result).toMatchObject({
      metadata: { code: 'CANCELLED', attempts: 1 },
      usage: { cost_usd: 0.001 },
    });
    expect((await http('DELETE', `/api/v1/calls/${running}`)).body.status).toBe('cancelled');
    const ended = (await begin('1')).body.call_id as string;
    await until('it has ended', async () => (await getState(ended)) === 'succeeded');
    expect((await http('DELETE', `/api/v1/calls/${ended}`)).body.status).toBe('succeeded');
    // A dry run is answered at once: there is nothing to wait for.
    expect(
      await http('POST', '/api/v1/tools/calculator/execute', {
        arguments: { expression: '1' },
        mode: 'async',
        dry_run: true,
      }),
    ).toMatchObject({ status: 200, body: { output: { dry_run: true } } });
  });

  it('replays an idempotency key and refuses it for other arguments', async () => {
    const post = (expression: string) =>
      fetch(`${fleet.url}/api/v1/tools/sample_save_note/execute`, {
        method: 'POST',
        headers: { authorization: `Bearer ${KEY}`, 'content-type': 'application/json', 'idempotency-key': 'e2e-1' },
        body: JSON.stringify({ arguments: { text: expression } }),
      });
    const first = await post('a');
    const again = await post('a');
    const body = (await first.json()) as { call_id: string; output: unknown };
    expect(first.status).toBe(200);
    expect(await again.json()).toMatchObject({ call_id: body.call_id, output: body.output });
    expect(again.headers.get('x-idempotency-cached')).toBe('true');
    expect((await post('b')).status).toBe(422);
    // Asynchronous duplicates end as the first one did, also while it is still running.
    const accepted = await Promise.all(
      [1, 2].map(() =>
        http('POST', '/api/v1/tools/execute_python/execute', {
          arguments: { code: 'sum(range(3_000_000))' },
          mode: 'async',
          idempotency_key: 'e2e-2',
          // A busy machine ends it late, not at its deadline.
          timeout_ms: 120_000,
        }),
      ),
    );
    for (const { body: kept } of accepted) {
      let ended: Answer['body'];
      await until('the call ends', async () => {
        ended = (await http('GET', `/api/v1/calls/${kept.call_id}`)).body;
        return !['accepted', 'claimed'].includes(ended.status);
      });
      expect(ended).toMatchObject({ status: 'succeeded' });
    }
    // A journalled call can be looked up although it was not asynchronous.
    expect(await http('GET', `/api/v1/calls/${body.call_id}`)).toMatchObject({
      status: 200,
      body: { status: 'succeeded' },
    });
  });

  it('accounts for calls', async () => {
    await until('usage is in the ledger', async () => {
      const { body } = await http('GET', '/api/v1/usage');
      return body.rows.some(
        (row: { tool_name: string; calls: number }) => row.tool_name === 'parcels_getParcel' && row.calls > 0,
      );
    });
  });

  it('makes a key that works, is limited to its tools, and can be revoked', async () => {
    const made = await http('POST', '/api/v1/keys', { client: 'e2e', tenant_id: 'acme', tools: ['calc*'] });
    expect(made.status).toBe(201);
    for (const [wrong, field] of [
      [{ tier: 'golden' }, 'tier'],
      [{ tenant_id: '../x' }, 'tenant_id'],
      [{ tools: ['a b'] }, 'tools'],
    ] as const) {
      expect(await http('POST', '/api/v1/keys', { client: 'e2e', ...wrong })).toMatchObject({
        status: 400,
        body: { code: 'REQUEST_INVALID', error: expect.stringContaining(field), details: { fields: [field] } },
      });
    }
    const key = made.body.token as string;
    const as = (tool: string, args: unknown) => http('POST', `/api/v1/tools/${tool}/execute`, { arguments: args }, key);
    expect((await as('calculator', { expression: '1' })).status).toBe(200);
    expect((await as('execute_python', { code: '1' })).status).toBeGreaterThanOrEqual(403);
    const own = await http('GET', '/api/v1/keys', undefined, key);
    expect([own.status, own.body.map(({ id }: { id: string }) => id)]).toEqual([200, [made.body.id]]);
    expect((await http('DELETE', `/api/v1/keys/${made.body.id}`)).status).toBe(204);
    await until('the key is revoked', async () => (await as('calculator', { expression: '1' })).status === 401);
  });

  it('serves health and metrics of every service', async () => {
    expect((await http('GET', '/health', undefined, null)).status).toBe(200);
    expect((await http('GET', '/readiness', undefined, null)).status).toBe(200);
    expect(fleet.services.map((service) => service.name)).toEqual(['standalone', 'worker-2']);
    for (const { admin_url: admin } of fleet.services) {
      expect((await fetch(`${admin}/health/ready`)).status).toBe(200);
      expect(await (await fetch(`${admin}/metrics`)).text()).toContain('toolfleet_build_info');
    }
  });

  it('serves calls by every worker', async () => {
    const idle = new Set(fleet.services.map(({ admin_url: admin }) => admin));
    await until('each has run the calculator', async () => {
      // The system chooses the worker when it accepts a connection.
      const agent = new Agent();
      const posted = httpRequest(`${fleet.url}/api/v1/tools/calculator/execute`, {
        method: 'POST',
        agent,
        headers: { authorization: `Bearer ${KEY}`, 'content-type': 'application/json' },
      });
      posted.end(JSON.stringify({ arguments: { expression: '2 + 2' } }));
      const [answer] = (await once(posted, 'response')) as [IncomingMessage];
      expect(answer.statusCode).toBe(200);
      expect(await json(answer)).toMatchObject({ output: { result: 4 } });
      agent.destroy();
      for (const admin of idle) {
        const metrics = await (await fetch(`${admin}/metrics`)).text();
        if (/shannon_tool_executions_total\{tool_name="calculator",status="success"\} \d/.test(metrics))
          idle.delete(admin);
      }
      return idle.size === 0;
    });
  });

  it('keeps its data from other users of the machine', async () => {
    const answer = await http('POST', '/api/v1/tools/execute_python/execute', {
      arguments: { code: 'n = 1', session_id: 's' },
    });
    expect(answer.status).toBe(200);
    const readable = readdirSync(stateDir, { recursive: true, encoding: 'utf8' }).filter((name) => {
      const stats = lstatSync(join(stateDir, name), { throwIfNoEntry: false });
      return stats !== undefined && !stats.isSymbolicLink() && (stats.mode & 0o077) !== 0;
    });
    expect(readable).toEqual([]);
  });

  it('leaves the configuration file to the user, follows its changes, and prints its faults', async () => {
    const file = join(stateDir, 'fleet.yaml');
    expect(readFileSync(file, 'utf8')).toBe(USER_FILE);
    expect(runner.output).toContain('ignoring an entry: mcp_tools.broken.url must be an http or https URL');
    const limit = async () =>
      ((await http('GET', '/api/v1/budgets')).body.budgets[1] as { limit_tokens: number }).limit_tokens;
    expect(await limit()).toBe(1_000_000);
    const echo = /url: (\S+)\/functions/.exec(readFileSync(join(stateDir, 'samples.yaml'), 'utf8'))![1];
    writeFileSync(
      file,
      `mcp_tools: { mine: { url: "${echo}/functions", func_name: echo } }
budget: { tenants: { local: { max_tokens_per_day: 2000000 } } }
toolsets: { own: { include: { tools: [mine] } } }
rate_limits: { tiers: { pro: { requests_per_minute: 9 } } }
`,
    );
    const listed = async (query = '') =>
      ((await http('GET', `/api/v1/tools${query}`)).body as { name: string }[]).map(({ name }) => name);
    await until('the new source is listed', async () => (await listed()).includes('mine'));
    await until('the new limit applies', async () => (await limit()) === 2_000_000);
    await until(
      'the new toolset is there',
      async () => (await http('GET', '/api/v1/tools?toolset=own')).status === 200,
    );
    expect(await listed('?toolset=own')).toEqual(['mine']);
    await until('the restart is asked for', () => runner.output.includes('rate_limits changed; restart the gateway'));
    writeFileSync(file, 'openapi_toolz: {}');
    await until('the mistake is printed', () => runner.output.includes('did you mean openapi_tools?'));
    expect(await listed()).toContain('mine');
    writeFileSync(file, USER_FILE);
    await until('the source is refused again', async () => runner.output.split('mcp_tools.broken.url').length > 2);
    writeFileSync(file, '{}');
    await until('the source is gone', async () => !(await listed()).includes('mine'));
    expect(await listed()).toContain('sample_add');
  });

  it('starts the command of an MCP server that fleetctl adds', async () => {
    writeFileSync(join(stateDir, 'fleet.yaml'), '# mine\n');
    const program = join(ROOT, 'tools/fleetctl/bin/fleetctl.mjs');
    const command = [
      process.execPath,
      join(ROOT, 'node_modules/@modelcontextprotocol/server-everything/dist/index.js'),
    ];
    const words = ['sources', 'add', '--name', 'local', '--allow', '--', ...command, 'stdio'];
    const added = await promisify(execFile)(process.execPath, [program, ...words], {
      env: { ...process.env, TOOLFLEET_STATE_DIR: stateDir },
    });
    expect(added.stderr).toMatch(/is an MCP server \(.*\) with \d+ tools: echo, .*; adding it as local\n/);
    expect(added.stdout).toMatch(/^The fleet has started local with \d+ tools\n[^]*fleetctl call local_/);
    expect((await call('local_echo', { message: 'hello' })).body).toMatchObject({ success: true });
    writeFileSync(join(stateDir, 'fleet.yaml'), '{}');
  });

  it('starts every process again that is killed under load, and loses no accepted call', async () => {
    const local = () => JSON.parse(readFileSync(join(stateDir, 'local.json'), 'utf8')) as LocalFleet;
    const pidOf = (name: string) =>
      local().broker_pids[name] ?? local().services.find((service) => service.name === name)!.pid;
    // Arguments of their own: a cached answer needs no executor.
    let number = 0;
    const kinds: (() => [string, object])[] = [
      () => ['calculator', { expression: `${(number += 1)} + 1` }],
      () => ['execute_python', { code: `${(number += 1)} + 1` }],
      () => ['parcels_getQuote', { weight_kg: (number += 1) }],
      () => ['sample_add', { a: (number += 1), b: 1 }],
    ];
    const succeeds = async (kind: () => [string, object]) =>
      (await call(...kind()).catch(() => undefined))?.body?.success === true;
    const accepted: string[] = [];
    let stopped = false;
    const load = ['calculator', 'execute_python'].map(async (tool) => {
      for (let n = 0; !stopped; n += 1) {
        const args = tool === 'calculator' ? { expression: `${n} * 3` } : { code: `${n} * 3` };
        const answer = await http('POST', `/api/v1/tools/${tool}/execute`, { arguments: args, mode: 'async' }).catch(
          () => undefined,
        );
        if (answer?.status === 202) accepted.push(answer.body.call_id as string);
        await new Promise((resolve) => setTimeout(resolve, 200));
      }
    });
    const names = [...Object.keys(fleet.broker_pids), ...fleet.services.map((service) => service.name)];
    expect(names).toHaveLength(4);
    for (const name of names) {
      const before = pidOf(name);

      const acceptedBefore = accepted.length;
      process.kill(before, 'SIGKILL');
      await until(`${name} is started again`, () => pidOf(name) !== before && isAlive(pidOf(name)));
      expect(runner.output).toContain(`${name} was ended by SIGKILL; starting it again`);
      await Promise.all(
        kinds.map((kind) => until(`${kind()[0]} answers after the end of ${name}`, () => succeeds(kind), 500)),
      );
      await until(`calls are accepted after the end of ${name}`, () => accepted.length > acceptedBefore);
    }
    stopped = true;

    await Promise.all(load);
    const open = new Set(accepted);
    await until('every accepted call has ended', async () => {
      for (const id of open) {
        const { status, body } = await http('GET', `/api/v1/calls/${id}`);
        if (status === 200 && !['accepted', 'claimed'].includes(body.status as string)) open.delete(id);
      }
      return open.size === 0;
    });
    expect(accepted.length).toBeGreaterThan(names.length);
    fleet = local();
    // The others serve calls while the last one starts.
    for (const { name, admin_url: admin } of fleet.services)
      await until(`${name} is ready`, async () => (await fetch(`${admin}/health/ready`)).status === 200);
  });

  it('stops everything within 5 s of SIGTERM and leaves no process', async () => {
    await nats.close();
    const pids = [...fleet.services.map((service) => service.pid), ...Object.values(fleet.broker_pids)];
    expect(pids.every(isAlive)).toBe(true);
    process.kill(runner.child.pid!, 'SIGTERM');
    await until('the runner ends', () => runner.hasEnded);
    await until('every process is gone', () => !pids.some(isAlive));
  });
});
