/**
 * The first hour of a new user: a fleet of `npm start` with an empty state folder, and from there on commands that were printed
 * before. Nothing changes silently, and every refusal names the next step.
 */
import { execFile } from 'node:child_process';
import { appendFileSync, cpSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { json } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { NpmStart } from '../fleet/npm-start.js';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const PROGRAM = join(ROOT, 'tools/fleetctl/bin/fleetctl.mjs');
const TOKEN = 'library-token';

/** Answers of a small MCP server; none to notifications. */
const answerMcp = ({ id, method, params }: { id?: number; method: string; params?: object }): string | undefined => {
  const results: Record<string, object> = {
    initialize: {
      protocolVersion: '2025-11-25',
      capabilities: { tools: {} },
      serverInfo: { name: 'notes', version: '1' },
    },
    'tools/list': {
      tools: [{ name: 'write', inputSchema: { type: 'object', properties: { text: { type: 'string' } } } }],
    },
    'tools/call': { content: [{ type: 'text', text: `wrote ${JSON.stringify(params)}` }] },
    ping: {},
  };
  const reply = results[method] ? { result: results[method] } : { error: { code: -32601, message: 'unknown' } };
  return id === undefined ? undefined : JSON.stringify({ jsonrpc: '2.0', id, ...reply });
};
const LOCAL_SERVER = `const answer = ${answerMcp.toString()};
require('node:readline').createInterface({ input: process.stdin }).on('line', (line) => {
  const text = answer(JSON.parse(line));
  if (text) console.log(text);
});`;

const documentOf = (origin: string): string => `openapi: 3.1.0
info: { title: Library, version: "1" }
servers: [{ url: "${origin}" }]
components:
  schemas:
    Book: { type: object, required: [title], properties: { title: { type: string, description: Title }, year: { type: integer } } }
paths:
  /books:
    get: { operationId: listBooks, responses: { "200": { description: All } } }
    post:
      operationId: addBook
      requestBody: { required: true, content: { application/json: { schema: { $ref: "#/components/schemas/Book" } } } }
      responses: { "201": { description: Added } }
`;

async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
  response.setHeader('content-type', 'application/json');
  if (request.url === '/mcp') {
    const text = request.method === 'POST' ? answerMcp((await json(request)) as { method: string }) : undefined;
    return void (text === undefined
      ? response.writeHead(request.method === 'POST' ? 202 : 405).end()
      : response.end(text));
  }
  if (request.headers.authorization !== `Bearer ${TOKEN}`)
    return void response.writeHead(401).end('{"message":"the token is not valid"}');
  const books = Array.from({ length: 57 }, (_, number) => ({ number, title: `Book ${number}` }));
  response.end(JSON.stringify(request.method === 'POST' ? { added: await json(request) } : books));
}

let site: Server;
let origin: string;
let folder: string;
let env: Record<string, string>;
let runner: NpmStart;

beforeAll(async () => {
  site = createServer((request, response) => void answer(request, response));
  await new Promise<void>((resolve) => site.listen(0, '127.0.0.1', resolve));
  origin = `http://127.0.0.1:${(site.address() as AddressInfo).port}`;
  folder = mkdtempSync(join(tmpdir(), 'toolfleet-first-hour-'));
  cpSync(join(ROOT, 'deploy/policies'), join(folder, 'policies'), { recursive: true });
  env = { TOOLFLEET_STATE_DIR: join(folder, '.toolfleet'), POLICY_DIR: join(folder, 'policies') };
  runner = await NpmStart.start(env);
});
afterAll(async () => {
  await runner?.stop();
  await new Promise((resolve) => site.close(resolve));
  rmSync(folder, { recursive: true, force: true });
});

interface Ran {
  code: number;
  out: string;
  error: string;
}

/** Runs a command line as it is printed: words with blanks are quoted. */
function run(line: string, more: Record<string, string> = {}): Promise<Ran> {
  const script = line.replace(/^fleetctl /, '"$NODE" "$PROGRAM" ');
  const own = { PATH: process.env['PATH'] ?? '', HOME: folder, NODE: process.execPath, PROGRAM, ...env, ...more };
  return new Promise((resolve) => {
    const child = execFile('sh', ['-c', script], { cwd: folder, env: own, timeout: 150_000 }, (_error, out, error) =>
      resolve({ code: child.exitCode ?? -1, out, error }),
    );
  });
}

/** Runs a command line that has to succeed. */
async function ok(line: string, more: Record<string, string> = {}): Promise<Ran> {
  const ran = await run(line, more);
  expect(ran, line).toMatchObject({ code: 0 });
  return ran;
}

/** The command that was printed last and matches, with values for its gaps. */
function printed(text: string, part: string, ...values: string[]): string {
  const line = text.split('\n').findLast((one) => one.trim().startsWith('fleetctl ') && one.includes(part));
  expect(line, `${part} in ${text}`).toBeDefined();
  return values.reduce((whole, value) => whole.replace('…', value), line!.trim().replace(/ {2,}#.*/, ''));
}

it('a first call is on the screen of the start', async () => {
  expect(runner.output).toContain('toolfleet is ready');
  const { out } = await ok(printed((await ok('fleetctl describe calculator')).out, 'call calculator', '"6 * 7"'));
  expect(out).toContain('42');
});

it('a source by OpenAPI: its credential is corrected, and the names of its tools stay', async () => {
  writeFileSync(join(folder, 'library.yaml'), documentOf(origin));
  const refused = await run('fleetctl sources add ./library.yaml');
  expect(refused).toMatchObject({ code: 1, error: expect.stringContaining('--allow') });
  const fields = `'{"auth_type": "bearer", "auth_config": {"token": "wrong"}}'`;
  const added = await ok(`fleetctl sources add ./library.yaml --allow --fields ${fields}`);
  const call = printed(added.out, 'call library_');
  const failed = await run('fleetctl call library_listBooks');
  expect(failed).toMatchObject({ code: 1, error: expect.stringContaining('401') });
  const set = await ok(`fleetctl sources set library auth_config.token=${TOKEN}`);
  expect(set.error).toContain('secrets: 1 sent anew');
  expect(set.error).not.toContain('tool library');
  expect((await ok(call.replace('…', 'Emma'))).out).not.toBe('');

  const names = async () => (await ok('fleetctl sources show library --json')).out;
  const before = JSON.parse(await names()) as { tools: string[] };
  // The document again, with nothing else: the credential and the prefix stay.
  await ok('fleetctl sources add ./library.yaml');
  expect(JSON.parse(await names())).toMatchObject({ tools: before.tools });
  const books = await ok('fleetctl call library_listBooks --cache no-store > books.json; cat books.json');
  expect(JSON.parse(books.out)).toHaveLength(57);

  await ok(`fleetctl toolsets put support '{"include": {"tools": ["library_*"]}}'`);
  const renamed = await run('fleetctl sources set library --prefix lib');
  expect(renamed).toMatchObject({ code: 1, error: expect.stringContaining('tool library_listBooks → lib_listBooks') });
  expect(renamed.error).toContain('toolset support');
  expect((await ok('fleetctl tools --toolset support')).out).toContain('library_addBook');
});

it('a body by reference is shown and passed member by member', async () => {
  const { out } = await ok('fleetctl describe library_addBook');
  expect(out).toMatch(/body\.title \* +string +Title/);
  const added = await ok(`${printed(out, 'call library_addBook', 'Emma')} --body.year 1815`);
  expect(JSON.parse(added.out)).toEqual({ added: { title: 'Emma', year: 1815 } });
});

it('an unknown field of a body is refused with the field that it may mean, and of the file in health', async () => {
  for (const [line, meant] of [
    [`toolsets put desk '{"includ": {}}'`, 'include'],
    [`toolsets put desk '{"include": {"tool": ["library_*"]}}'`, 'tools'],
    [`toolsets put desk '{"overrides": {"library_addBook": {"descripton": "x"}}}'`, 'description'],
    [`rules test toolset desk '{"include": {"tool": ["library_*"]}}'`, 'tools'],
    [`sources set library auth_config.tokn=x`, 'token'],
  ]) {
    const refused = await run(`fleetctl ${line}`);
    expect(refused, line).toMatchObject({ code: 1, error: expect.stringContaining(`did you mean ${meant}?`) });
  }
  const file = join(folder, '.toolfleet/fleet.yaml');
  const before = readFileSync(file, 'utf8');
  const toolset = (field: string): string =>
    `\ntoolsets:\n  desk: { overrides: { library_addBook: { ${field}: Adds a book for a reader } } }\n`;
  appendFileSync(file, toolset('descripton'));
  const fault = 'toolsets.desk.overrides.library_addBook.descripton is an unknown key; did you mean description?';
  await runner.until('health names the typo', async () => (await run('fleetctl health')).out.includes(fault), 1_000);
  writeFileSync(file, before + toolset('description'));
  const shown = 'fleetctl describe library_addBook --toolset desk';
  await runner.until(
    'the toolset covers a tool that sources add made',
    async () => (await run(shown)).out.includes('Adds a book for a reader'),
    1_000,
  );
});

it('the credential that is kept goes nowhere else', async () => {
  const moved = await run('fleetctl sources set library base_url=http://127.0.0.1:9/');
  expect(moved).toMatchObject({ code: 1, error: expect.stringContaining('send them again') });
});

it('a source by MCP over HTTP, and one by its command, which is removed again', async () => {
  const added = await ok(`fleetctl sources add ${origin}/mcp --name web --allow`);
  expect((await ok(printed(added.out, 'call web_write'))).out).toContain('wrote');
  writeFileSync(join(folder, 'server.cjs'), LOCAL_SERVER);
  const local = await ok(
    'fleetctl sources add --name local --allow -- "$NODE" server.cjs'.replace('server.cjs', `"${folder}/server.cjs"`),
  );
  expect(local.error).toContain('waiting until the fleet has its tools');
  expect(local.out).toContain('with 1 tools');
  expect((await ok(printed(local.out, 'call local_write'))).out).toContain('wrote');
  expect((await ok('fleetctl sources remove local')).out).toContain('Removed mcp/local');
  expect(readFileSync(join(folder, '.toolfleet/fleet.yaml'), 'utf8')).not.toContain('server.cjs');
});

it('a key for a colleague and a budget', async () => {
  const made = await ok(`fleetctl keys create ann --service ann --tools 'library_*' --roles aprover`);
  expect(made.error).toContain('did you mean approver?');
  const key = { TOOLFLEET_API_KEY: made.out.trim() };
  expect((await ok('fleetctl tools', key)).out).not.toContain('calculator');
  expect((await run('fleetctl call calculator --expression 1', key)).code).not.toBe(0);
  expect((await ok('fleetctl budgets set user dev --usd 20')).out).toContain('20');
  expect((await ok('fleetctl budgets')).out).toContain('dev');
  expect((await ok('fleetctl budgets remove user dev')).out).toContain('Removed');
});

it('a parked call says what it waits for and who decides it', async () => {
  writeFileSync(
    join(folder, 'policies/books.rego'),
    `package tools

ask contains {"question": "Add this book?", "on_approval": "park"} if {
	input.tool == "library_addBook"
	input.arguments.body.title == "Dune"
}
`,
  );
  let parked = '';
  await runner.until(
    'the rule is loaded',
    async () => {
      const { out, code } = await run('fleetctl call library_addBook --body.title Dune --async --no-wait');
      if (code !== 0) return false;
      parked = out.trim();
      return (await run(`fleetctl calls show ${parked}`)).out.includes('awaiting_approval');
    },
    1_000,
  );
  const shown = (await ok(`fleetctl calls show ${parked}`)).out;
  expect(shown).toContain('Add this book?');
  const approver = await ok('fleetctl keys create boss --service boss --roles approver');
  const key = { TOOLFLEET_API_KEY: approver.out.trim() };
  expect((await ok(printed(shown, 'approvals approve'), key)).out).toContain('Approved library_addBook');
  expect((await ok(`fleetctl calls show ${parked} --watch`)).out).toContain('Dune');
});

it('a failed call is found with its reason, also of a tool that does not exist', async () => {
  const missing = await run('fleetctl call search_the_web -a "{}"');
  expect(missing).toMatchObject({ code: 1, error: expect.stringContaining('TOOL_NOT_FOUND') });
  await runner.until(
    'the call is recorded',
    async () => (await run('fleetctl calls --status failure')).out.includes('search_the_web'),
    500,
  );
  const { out } = await ok('fleetctl calls --tool library_listBooks --status failure --json');
  const { calls } = JSON.parse(out) as { calls: { call_id: string }[] };
  const why = await ok(`fleetctl calls show ${calls[0]!.call_id}`);
  expect(why.out + why.error).toContain('HTTP 401');
});

it('the fleet stops, and starts again with all of it', async () => {
  const bundle = join(ROOT, 'build/fleetctl');
  const { ino } = statSync(bundle);
  await runner.stop();
  runner = await NpmStart.start(env);
  // A command that runs while a fleet starts still loads its code from there.
  expect(statSync(bundle).ino).toBe(ino);
  await runner.until(
    'the library is there',
    async () => (await run('fleetctl tools')).out.includes('library_listBooks'),
    500,
  );
  expect(JSON.parse((await ok('fleetctl call library_listBooks --cache no-store')).out)).toHaveLength(57);
});
