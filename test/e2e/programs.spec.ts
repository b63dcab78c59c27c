/** Programs that call tools, on a running fleet: their calls are calls like any other, and a lost worker repeats none of them. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { eventually } from '@toolfleet/testing';
import { NatsClient } from '@toolfleet/transport';
import { connect as connectNats, headers as natsHeaders } from 'nats';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { startCountingMcpServer, type CountingMcpServer } from '../fleet/counting-mcp-server.js';
import { fleetctl } from '../fleet/fleetctl.js';
import { startOrderServer, type OrderServer } from '../fleet/order-server.js';
import { startSampleServices, type SampleServices } from '../fleet/sample-services.js';
import { TestFleet, type Answer } from '../fleet/test-fleet.js';
import { describeWaitingPrograms, PROGRAM_RULES } from './waiting-programs.js';

const DOCS = fileURLToPath(new URL('../../docs/programs.md', import.meta.url));
/** Nothing listens there. */
const GONE = 'http://127.0.0.1:1/functions';
/** The answer of the order server. */
const ORDER = '{"id":ID,"lines":[{"id":ID}],"n":1}';
const SUBSTITUTE = 'Substitute data, not a live result';
let samples: SampleServices;
let server: CountingMcpServer;
let orders: OrderServer;
let fleet: TestFleet;
const policies = mkdtempSync(join(tmpdir(), 'toolfleet-programs-'));
beforeAll(async () => {
  [samples, server, orders] = await Promise.all([startSampleServices(), startCountingMcpServer(), startOrderServer()]);
  const { openapi_tools } = samples.config as { openapi_tools: object };
  writeFileSync(join(policies, 'tools.rego'), `package tools\n${PROGRAM_RULES}`);
  fleet = await TestFleet.start({
    services: {
      gateway: 1,
      registry: 1,
      budget: 1,
      'builtin-executor': 1,
      'mcp-executor': 1,
      'openapi-executor': 1,
      'python-sandbox': 1,
      records: 1,
    },
    together: ['registry', 'budget', 'builtin-executor', 'mcp-executor', 'openapi-executor'],
    tools: [
      'calculator',
      'events_show',
      'json_show',
      'local_show',
      'notes_save_note',
      'orders_add',
      'parcels_getParcel',
      'run_program',
    ],
    config: {
      ...samples.config,
      openapi_tools: { ...openapi_tools, ...orders.config.openapi_tools },
      mcp_servers: { notes: { url: `${server.origin}/mcp` }, ...orders.config.mcp_servers },
      mcp_tools: { gone: { url: GONE, func_name: 'gone', stub_data: { rows: 'r'.repeat(3_000) } } },
      tool_settings: { calculator: { requires_auth: true } },
    },
    env: {
      ...samples.env,
      EGRESS_ALLOWED_ENDPOINTS: `${samples.env['EGRESS_ALLOWED_ENDPOINTS']},${server.origin},${orders.origin},http://127.0.0.1:1`,
    },
    envOf: {
      gateway: { POLICY_DIR: policies, GATEWAY_SKIP_AUTH: 'true' },
      'mcp-executor': { TOOLFLEET_LOCAL: 'true' },
    },
  });
});
afterAll(async () => {
  await fleet?.stop();
  await Promise.all([server?.stop(), samples?.stop(), orders?.stop()]);
  rmSync(policies, { recursive: true });
});

const asAdmin = () => ({ timeoutMs: 30_000, headers: { Authorization: `Bearer ${fleet.adminKey}` } });
const program = (code: string, args: object = {}, ask: Parameters<TestFleet['call']>[2] = {}): Promise<Answer> =>
  fleet.call('run_program', { code, ...args }, ask);

describe('integers that no double holds', () => {
  const ID = '9007199254740993';
  const NEXT = '18446744073709551615';
  /** What the upstream gets for each tool, and where its answer has the id. */
  const CALLS: [tool: string, args: string, seen: string, output: string][] = [
    ['orders_read', `{"id":ID,"after":[ID,${NEXT}]}`, `GET /orders/${ID}?after=${ID}&after=${NEXT}`, ORDER],
    ['orders_add', '{"body":{"id":ID,"any":{"ref":ID}}}', `POST /orders {"id":${ID},"any":{"ref":${ID}}}`, ORDER],
    ['json_show', '{"id":ID}', `{"id":${ID}}`, '{"got":{"id":ID}}'],
    ['events_show', '{"id":ID}', `{"id":${ID}}`, '{"got":{"id":ID}}'],
    ['resumed_show', '{"id":ID}', `{"id":${ID}}`, '{"got":{"id":ID}}'],
    ['local_show', '{"id":ID}', `{"id":${ID}}`, '{"got":{"id":ID}}'],
  ];
  const asDigits = (text: string) => text.replaceAll('ID', ID);
  const asTexts = (text: string) => text.replaceAll('ID', `"${ID}"`);
  const DIGITS = { prefer: 'wait=5, large-integers=digits' };
  const post = async (path: string, body: string, more: Record<string, string> = {}) => {
    const response = await fetch(fleet.url() + path, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${fleet.adminKey}`,
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
        ...more,
      },
      body,
    });
    return response.text();
  };

  it.each(CALLS)('are sent to %s and shown as texts over HTTP', async (tool, args, seen, output) => {
    orders.seen();
    expect(await post(`/api/v1/tools/${tool}/execute`, `{"arguments":${asDigits(args)}}`)).toContain(
      `"output":${asTexts(output)}`,
    );
    expect(orders.seen()).toEqual([seen]);
    const batch = await post(
      '/api/v1/tools/batch-execute',
      `{"calls":[{"name":"${tool}","arguments":${asDigits(args)}}]}`,
    );
    expect(batch.replaceAll('\\"', '"')).toContain(`"output":${asTexts(output)}`);
  });

  it.each(CALLS)(
    'are digits in calls of %s over HTTP where the client prefers it',
    async (tool, args, seen, output) => {
      orders.seen();
      const answer = await post(`/api/v1/tools/${tool}/execute`, `{"arguments":${asDigits(args)}}`, DIGITS);
      expect(answer).toContain(`"output":${asDigits(output)}`);
      expect(orders.seen()).toEqual([seen]);
    },
  );

  it.each(CALLS)('are sent to %s as texts of digits over MCP, and shown so', async (tool, args, seen, output) => {
    orders.seen();
    const sent = asDigits(args.replace('ID', '"ID"'));
    const call = `{"name":"${tool}","arguments":${sent}}`;
    const answer = await post('/mcp', `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":${call}}`);
    expect(answer).toContain(`"structuredContent":${asTexts(output)}`);
    // An answer of the cache, for tools that allow it, has them, too.
    expect(orders.seen().every((one) => one === seen)).toBe(true);
  });

  it.each(CALLS)('are digits in calls of %s over NATS', async (tool, args, seen, output) => {
    orders.seen();
    const connection = await connectNats({ servers: `127.0.0.1:${fleet.nats.port}` });
    const headers = natsHeaders();
    headers.set('Authorization', `Bearer ${fleet.adminKey}`);
    const body = `{"name":"${tool}","arguments":${asDigits(args)}}`;
    const reply = await connection.request('tool.call', body, { timeout: 20_000, headers });
    await connection.close();
    expect(reply.string()).toContain(`"output":${asDigits(output)}`);
    expect(orders.seen()).toEqual([seen]);
  });

  it('are exact in programs and Python, both ways, also through the queue', async () => {
    orders.seen();
    const code = `
read = tools.orders_read(id=inputs["id"])
shown = tools.events_show(id=read["id"] + 2)
python = tools.execute_python(code="args['n'] + 2", args={"n": shown["got"]["id"]})
result = [read["lines"][0]["id"], shown["got"]["id"], python["value"]]`;
    const body = `{"arguments":{"code":${JSON.stringify(code)},"inputs":{"id":${ID}}}}`;
    const answer = await post('/api/v1/tools/run_program/execute', body);
    expect(answer).toContain(`"value":["${ID}","9007199254740995","9007199254740997"]`);
    expect(orders.seen()).toEqual([`GET /orders/${ID}`, '{"id":9007199254740995}']);
  });

  it('are ids of questions', async () => {
    orders.seen();
    const client = new Client({ name: 'e2e', version: '1' }, { capabilities: { elicitation: { form: {} } } });
    client.setRequestHandler('elicitation/create', () => ({ action: 'accept', content: {} }));
    const requestInit = { headers: { authorization: `Bearer ${fleet.adminKey}` } };
    await client.connect(new StreamableHTTPClientTransport(new URL(`${fleet.url()}/mcp`), { requestInit }));
    try {
      const result = await client.callTool({ name: 'questions_show', arguments: { id: ID } });
      expect(result).toMatchObject({ structuredContent: { got: { id: ID } } });
    } finally {
      await client.close();
    }
    expect(orders.seen()).toEqual([`{"id":${ID}}`, ID]);
  });

  it('are sent by asynchronous calls', async () => {
    orders.seen();
    const body = `{"arguments":{"body":{"id":"${ID}","any":${ID}}},"mode":"async"}`;
    const { call_id } = JSON.parse(await post('/api/v1/tools/orders_add/execute', body)) as { call_id: string };
    await eventually('the call has ended', async () => {
      const { text } = await fleet.ask({ path: `/api/v1/calls/${call_id}` });
      return text.includes(`"output":${asTexts(ORDER)}`);
    });
    expect(orders.seen()).toEqual([`POST /orders {"id":${ID},"any":${ID}}`]);
    for (const path of [call_id, `${call_id}/events`]) {
      const { text } = await fleet.ask({ path: `/api/v1/calls/${path}`, headers: DIGITS });
      expect(text).toContain(`"output":${asDigits(ORDER)}`);
    }
  });
});

describe('a program', () => {
  it('calls tools of any kind, one after the other and at once', async () => {
    const code = `
sums = gather(*[tools.calculator(expression=e) for e in inputs])
python = tools.execute_python(code="6 * 7")
note = tools.notes_save_note(text="from a program")
result = [s["result"] for s in sums] + [python["value"]]`;
    const { status, body } = await program(code, { inputs: ['1+1', '2*3'] });
    expect(body.error).toBeNull();
    expect([status, body.output.value]).toEqual([200, [2, 6, 42]]);
    expect(server.notes.get('from a program')).toBe(1);
    expect(body.metadata.calls).toEqual([
      expect.objectContaining({ n: 1, tool: 'calculator', ok: true, key: `${body.call_id}#1` }),
      expect.objectContaining({ n: 2, tool: 'calculator', ok: true }),
      expect.objectContaining({ n: 3, tool: 'execute_python', ok: true, cost_usd: 0.001 }),
      expect.objectContaining({ n: 4, tool: 'notes_save_note', ok: true }),
    ]);
  });

  it('sees the tools of the toolset that it was started in, and those it names of them', async () => {
    const toolset = {
      include: { tools: ['run_program', 'calculator', 'notes_*'] },
      overrides: { calculator: { name: 'reckon' }, notes_save_note: { name: 'note', preset: { text: 'preset' } } },
    };
    const put = await fleet.ask({ method: 'PUT', path: '/api/v1/toolsets/short', body: toolset });
    expect(put.status, put.text).toBe(200);
    const code = `
tools.note()
found = [t["name"] for t in tools.search("reckon")]
try:
    tools.calculator(expression="1")
except ToolError as error:
    missing = error.code
result = [tools.reckon(expression="6*7")["result"], missing, "calculator" in found]`;
    const run = (args: object): Promise<Answer> =>
      fleet.ask({ path: '/api/v1/tools/run_program/execute?toolset=short', body: { arguments: { code, ...args } } });
    const { body } = await run({});
    expect(body.error, JSON.stringify(body)).toBeNull();
    expect(body.output.value).toEqual([42, 'TOOL_NOT_FOUND', false]);
    expect(server.notes.get('preset')).toBe(1);
    expect((await run({ tools: ['note', 'reckon'] })).body.output.value).toEqual([42, 'TOOL_NOT_FOUND', false]);
    expect((await run({ tools: ['note'] })).body).toMatchObject({ success: false });
  });

  it.each(['sync', 'async'])('calls tools that require a credential if its caller presented one (%s)', async (mode) => {
    const code = `
try: result = tools.calculator(expression=inputs)["result"]
except ToolError as e: result = [e.code, e.message]`;
    const run = async (key: string | null): Promise<unknown> => {
      const { body } = await program(code, { inputs: '6*7' }, { key, fields: { mode } });
      if (mode === 'sync') return body.output.value;
      const call = () => fleet.ask({ path: `/api/v1/calls/${body.call_id}`, key });
      await eventually('the program ends', async () => (await call()).body.status === 'succeeded');
      return (await call()).body.result.output.value;
    };
    expect(await run(fleet.keys['acme']!)).toBe(42);
    expect(await run(null)).toEqual([
      'PERMISSION_DENIED',
      "Tool 'calculator' requires authentication: send an API key or an access token with the call that started this one",
    ]);
  });

  it('selects parts of results', async () => {
    const code = `
one = tools.execute_python.select("value.b[1]")(code="{'a': 1, 'b': [2, 3]}")
both = gather(tools.calculator.select("$.result")(expression="1+1"), tools["calculator"].select("result")(expression="2+2"))
try: tools.calculator.select("a b")(expression="1")
except ToolError as e: refused = e.code
[one, both, refused]`;
    expect((await program(code)).body).toMatchObject({
      error: null,
      output: { value: [3, [[2], 4], 'REQUEST_INVALID'] },
    });
  });

  it('reads a large result of an earlier call in parts', async () => {
    const { body } = await fleet.call(
      'execute_python',
      { code: '[{"id": i} for i in range(5000)]' },
      { fields: { max_result_kb: 8 } },
    );
    const code = `
first = tools.read_result(handle=inputs, select="value[-1].id")
page = tools.read_result(handle=inputs, limit=10)
[first, page["text"], page["next_offset"]]`;
    const read = await program(code, { inputs: body.metadata.result_handle.handle });
    expect(read.body).toMatchObject({ error: null, output: { value: [4_999, expect.stringMatching(/^{"/), 10] } });
  });

  it('marks substitutes among its results, for itself and for the model that reads its own', async () => {
    const { body } = await program('answer = tools.gone.call()\nresult = [answer.note, len(answer.output["rows"])]');
    expect(body).toMatchObject({
      success: true,
      output: { value: [expect.stringContaining(SUBSTITUTE), 3_000] },
      text: expect.stringMatching(/^Calls of this program returned substitutes: gone \(call 1\): Substitute data/),
      metadata: { calls: [{ tool: 'gone', ok: true, fallback: 'stub_data' }] },
    });
    const failed = await program('tools.gone()\nraise ValueError("no")');
    expect(JSON.parse(failed.body.text).message).toContain(SUBSTITUTE);
  });

  it('catches refusals and failures', async () => {
    const code = `
found = []
for name, args in [("no_such", {}), ("calculator", {}), ("calculator", {"expression": "1/0"}), ("run_program", {"code": "1"}), ("calculator", {"expression": [1] * 60_000})]:
    try: tools[name](**args)
    except ToolError as e: found.append(e.code)
found`;
    const { body } = await program(code);
    expect(body.output.value).toEqual([
      'TOOL_NOT_FOUND',
      'ARGUMENTS_INVALID',
      'TOOL_ERROR',
      'PERMISSION_DENIED',
      'ARGUMENTS_INVALID',
    ]);
    const misspelt = await program('tools.calculater(expression="1")');
    expect(misspelt.body.error).toContain('did you mean calculator?');
  });

  it('may call only what it names, as often as it says', async () => {
    const code = 'n = 0\nwhile True:\n    tools.calculator(expression="1")\n    n += 1';
    const limited = await program(code, { max_calls: 3 });
    expect(limited.body).toMatchObject({ success: false, metadata: { code: 'SANDBOX_ERROR' } });
    expect(limited.body.error).toContain('PROGRAM_LIMIT');
    expect(limited.body.metadata.calls).toHaveLength(4);
    const narrowed = await program('tools.calculator(expression="1")', { tools: ['notes_*'] });
    expect(narrowed.body.error).toMatch(/TOOL_NOT_FOUND|PERMISSION_DENIED/);
    const misspelt = await program('1', { tools: ['calculater', 'notes_*'] });
    expect([misspelt.status, misspelt.body]).toMatchObject([
      400,
      { code: 'ARGUMENTS_INVALID', error: expect.stringContaining("'calculater' not found; did you mean calculator?") },
    ]);
  });

  it('costs no more than it says, also with calls at the same time', async () => {
    const code = `
answers = gather(*[tools.execute_python(code=f"{n}") for n in range(8)], return_errors=True)
[getattr(answer, "code", "ok") for answer in answers]`;
    const { body } = await program(code, { max_cost_usd: 0.003 });
    expect(body.error, JSON.stringify(body)).toBeNull();
    const codes: string[] = body.output.value;
    expect(codes.toSorted()).toEqual([...Array<string>(5).fill('PROGRAM_LIMIT'), 'ok', 'ok', 'ok']);
    expect(body.metadata.calls_cost_usd).toBe(0.003);
  });

  it('finds tools and reads their signatures', async () => {
    const { body } = await program(
      `help(tools.calculator)
levels = [tools.search("calculate an expression", detail=d)[0] for d in ("names", "summary", "full")]
try: tools.search("x", detail="all")
except ToolError as e: levels.append(e.message)
levels`,
    );
    expect(body.output.value).toEqual([
      'calculator',
      {
        name: 'calculator',
        description: expect.any(String),
        signature: expect.stringMatching(/^calculator\(\*, expr/),
      },
      expect.objectContaining({ name: 'calculator', input_schema: expect.objectContaining({ type: 'object' }) }),
      'detail must be one of names, summary, full, not "all"',
    ]);
    expect(body.output.stdout).toContain('def calculator(self, *, expression: str');
  });

  it('stops with its call, and what runs inside with it', async () => {
    const leaving = new AbortController();
    const gone = program('tools.notes_count_slowly(steps=2000)', {}, { signal: leaving.signal }).catch(
      (e: Error) => e.name,
    );
    await eventually('the tool runs', () => server.counting() === 1);
    leaving.abort();
    expect(await gone).toBe('AbortError');
    await eventually('the tool was cancelled', () => server.counting() === 0 && server.cancelled() === 1);
  });
});

describe('substitute data', () => {
  const shapes = {
    'chat completions': { id: 'a', type: 'function', function: { name: 'gone', arguments: '{}' } },
    'openai-responses': { type: 'function_call', call_id: 'b', name: 'gone', arguments: '{}' },
    anthropic: { type: 'tool_use', id: 'c', name: 'gone', input: {} },
    gemini: { functionCall: { name: 'gone', args: {} } },
  };
  const message = { name: 'gone', arguments: {} };

  it.each<[string, (nats: NatsClient) => Promise<unknown[]>]>([
    ['HTTP', async () => (await fleet.ask({ path: '/api/v1/tools/batch-execute', body: Object.values(shapes) })).body],
    ['NATS', (nats) => nats.request('tool.batch', { calls: Object.values(shapes) }, asAdmin())],
    [
      'HTTP as chat completions',
      async () => (await fleet.ask({ path: '/api/v1/tools/batch-execute?format=openai', body: [message] })).body,
    ],
  ])('is marked in batches of every shape over %s', async (_, send) => {
    const nats = await NatsClient.connect({ url: fleet.nats.url, name: 'spec' });
    const answers = await send(nats).finally(() => nats.close());
    for (const answer of answers) {
      const { content, output, result, functionResponse } = answer as any;
      const read = result ? JSON.parse(result).text : (functionResponse?.response.output ?? output ?? content);
      expect(typeof read === 'string' ? read : read[0].text).toMatch(/^Substitute data/);
    }
  });

  it('is marked when it is kept, and in the parts that are read of it', async () => {
    const { body } = await fleet.call('gone', {}, { fields: { max_result_kb: 1 } });
    const { handle } = body.metadata.result_handle;
    expect(body.text).toMatch(/^Substitute data/);
    for (const part of [{}, { select: 'rows' }]) {
      const read = await fleet.call('read_result', { handle, ...part });
      expect(read.body.text).toMatch(/^Substitute data/);
    }
    expect((await fleet.ask({ path: `/api/v1/results/${handle}` })).body.disclaimer).toContain(SUBSTITUTE);
  });
});

describe('the examples of docs/programs.md', () => {
  const examples = [...readFileSync(DOCS, 'utf8').matchAll(/^```python\n([\s\S]*?)^```$/gm)].map(([, code]) => code!);
  it.each([
    [0, ['P-1001'], { 'P-1001': 'in_transit' }],
    [1, 'P-9999', 'unknown (UPSTREAM_ERROR)'],
    [2, null, { n: 10, mean: 28.5 }],
    [3, ['1+1', '1/0'], { '1+1': 2, '1/0': 'TOOL_ERROR' }],
    [4, [1, 2, 3], [4, 8, 12]],
  ])('example %i works', async (index, inputs, value) => {
    expect(examples).toHaveLength(5);
    const { body } = await program(examples[index]!, { inputs });
    expect(body.error).toBeNull();
    expect(body.output.value).toEqual(value);
  });
});

describe.each(['auto', 'legacy'] as const)('an agent in code mode over MCP (%s)', (mode) => {
  const THREE = ['describe_tools', 'run_program', 'search_tools'];
  const TOOLS = ['calculator', 'notes_save_note', 'run_program'];
  let client: Client;
  const connect = async (query: string, key: string) => {
    client = new Client({ name: 'agent', version: '1' }, { versionNegotiation: { mode } });
    const requestInit = { headers: { Authorization: `Bearer ${key}` } };
    await client.connect(new StreamableHTTPClientTransport(new URL(`${fleet.url()}/mcp${query}`), { requestInit }));
    return (await client.listTools()).tools.map(({ name }) => name);
  };
  const call = async (name: string, args: Record<string, unknown>) => {
    const { content, structuredContent, isError, _meta } = await client.callTool({ name, arguments: args });
    return {
      text: content.map((block) => ('text' in block ? block.text : '')).join(''),
      structuredContent,
      isError,
      _meta,
    };
  };
  afterEach(() => client?.close());

  it('finds tools, reads their stubs and runs a program, with a key that is bound to it', async () => {
    const made = await fleet.ask({
      path: '/api/v1/keys',
      body: { client: `agent-${mode}`, tools: TOOLS, mcp_mode: 'code' },
    });
    expect([made.status, made.body.mcp_mode]).toEqual([201, 'code']);
    expect(await connect('?mode=list', made.body.token)).toEqual(THREE);
    expect(client.getInstructions()).toContain('run_program');
    const all = await call('search_tools', { detail: 'names' });
    expect(all.structuredContent).toMatchObject({ tools: ['calculator', 'notes_save_note', 'read_result'] });
    const found = await call('search_tools', { query: 'evaluate a mathematical expression' });
    expect(JSON.parse(found.text).tools[0]).toEqual({ name: 'calculator', description: expect.any(String) });
    const stub = await call('describe_tools', { names: ['calculator', 'notes_save_note'] });
    expect(stub.text).toContain('def calculator(self, *, expression: str');
    expect(stub.text).toContain('def notes_save_note(');
    const code = `
sums = gather(*[tools.calculator(expression=e) for e in inputs])
tools.notes_save_note(text="code mode ${mode}")
try: tools.parcels_getParcel(parcel_id="P-1001")
except ToolError as e: refused = e.code
result = {"sums": [s["result"] for s in sums], "refused": refused}`;
    const ran = await call('run_program', { code, inputs: ['1+1', '2*3'] });
    expect(ran.structuredContent).toMatchObject({ value: { sums: [2, 6], refused: 'PERMISSION_DENIED' } });
    expect(server.notes.get(`code mode ${mode}`)).toBe(1);
    await expect(call('calculator', { expression: '1' })).rejects.toThrow(/Unknown tool: calculator.*run_program/);
    expect(await call('describe_tools', { names: ['parcels_getParcel'] })).toMatchObject({
      isError: true,
      _meta: { code: 'TOOL_NOT_FOUND' },
    });
  });

  it('reads a result that is too large to show, in a program and as a resource', async () => {
    await connect('?mode=code', fleet.adminKey);
    const large = await call('run_program', { code: '[{"id": i} for i in range(5000)]' });
    const { handle, uri } = (large.structuredContent as { toolfleet_result: { handle: string; uri: string } })
      .toolfleet_result;
    // The summary's own words are a program.
    const way = /in a program with (.*), or a page with (.*)\.$/m.exec(large.text);
    expect(way, large.text).not.toBeNull();
    const part = way![1]!.replace('<JSONPath or JMESPath>', 'value[-1].id');
    const read = await call('run_program', { code: `[${part}, ${way![2]}["text"][:5], ${way![2]}["offset"]]` });
    expect(read.structuredContent, read.text).toMatchObject({ value: [4_999, expect.any(String), 2_000] });
    const selected = await client.readResource({ uri: `${uri}?select=${encodeURIComponent('value[-1].id')}` });
    expect(selected.contents).toMatchObject([{ text: '4999' }]);
    await expect(call('read_result', { handle })).rejects.toThrow(/Unknown tool: read_result.*tools\["read_result"\]/);
  });

  it('is any client that asks for it', async () => {
    expect(await connect('?mode=code&schema_style=inline', fleet.adminKey)).toEqual(THREE);
  });
});

describe('tools over HTTP and in fleetctl', () => {
  const get = (query: string) => fleet.ask({ path: `/api/v1/tools${query}` });

  it('are found and shown at three levels of detail', async () => {
    const query = `query=${encodeURIComponent('evaluate an expression')}&limit=2`;
    expect((await get(`?${query}&detail=names`)).body[0]).toBe('calculator');
    expect((await get(`?${query}&detail=summary`)).body[0]).toEqual({
      name: 'calculator',
      description: expect.any(String),
    });
    expect((await get(`?${query}&format=openai`)).body[0]).toMatchObject({ function: { name: 'calculator' } });
    expect((await get('?source=parcels&detail=names')).body).toContain('parcels_getParcel');
    const page = await get('?detail=names&limit=1');
    expect([page.body, page.headers.get('link')]).toEqual([['calculator'], expect.stringContaining('detail=names')]);
    expect((await get('?names=run_program,calculator&detail=names')).body).toEqual(['run_program', 'calculator']);
  });

  it('are typed stubs as Python, and types as TypeScript', async () => {
    const stubs = await get('?format=python&names=calculator,parcels_getParcel');
    expect(stubs.headers.get('content-type')).toBe('text/x-python; charset=utf-8');
    expect(stubs.text).toContain('def parcels_getParcel(self, *, parcel_id: str');
    expect((await get('/calculator?format=python')).text).toContain('def calculator(self');
    const printed = await fleetctl(fleet, ['tools', 'stubs', 'calculator', 'parcels_getParcel']);
    expect([printed.code, printed.out.toString()]).toEqual([0, stubs.text]);
    const types = await fleetctl(fleet, ['tools', 'types', 'parcels_getParcel']);
    expect(types.out.toString()).toMatch(/parcels_getParcel: \{\s+arguments: \{.*parcel_id: string;/s);
    const found = await fleetctl(fleet, ['tools', 'search', 'evaluate', 'expression', '--limit', '1']);
    expect(found.out.toString()).toContain('calculator');
    const key = await fleetctl(fleet, ['keys', 'create', 'coder', '--mcp-mode', 'code', '--json']);
    expect(JSON.parse(key.out.toString())).toMatchObject({ mcp_mode: 'code' });
  });

  it.each<[string, number, string]>([
    ['?detail=all', 400, 'detail must be one of'],
    ['?format=go', 400, 'format must be one of'],
    ['?names=calculator,calculater,nothing', 404, "'calculater'; did you mean calculator?, 'nothing'"],
    [`?names=${Array(51).fill('calculator').join()}`, 400, 'names must have 1 to 50 names of tools, not 51'],
    ['?names=calculator&limit=1', 400, 'names chooses tools without limit'],
    ['?detail=names&format=python', 400, 'detail=names has no format'],
    ['?query=x&cursor=eA', 400, 'cursor continues a list'],
  ])('are refused for %s', async (query, status, message) => {
    const refused = await get(query);
    expect([refused.status, refused.body.error]).toEqual([status, expect.stringContaining(message)]);
  });

  it('belong to keys of known modes that may run programs', async () => {
    const create = async (fields: object) =>
      (await fleet.ask({ path: '/api/v1/keys', body: { client: 'x', ...fields } })).body;
    expect((await create({ mcp_mode: 'fast' })).error).toContain('mcp_mode must be one of');
    expect((await create({ mcp_mode: 'code', tools: ['calculator'] })).error).toContain('must include run_program');
  });
});

describeWaitingPrograms({ fleet: () => fleet, server: () => server });

describe('an asynchronous program whose gateway is killed', () => {
  it('is taken over by another gateway and repeats none of its finished calls', async () => {
    await fleet.launch('gateway');
    const code = 'for i in range(4): tools.notes_save_note(text=f"moved-{i}", delay_ms=500)\n"done"';
    const accepted = await program(code, {}, { fields: { mode: 'async' }, gateway: 1 });
    expect(accepted.status).toBe(202);
    await eventually('it has made two calls', () => server.notes.has('moved-1'));
    // The job of the call may run on either gateway.
    await Promise.all([fleet.kill('gateway', 1), fleet.kill('gateway', 0)]);
    await fleet.launch('gateway');
    const ended = async () => {
      const call = await fleet.ask({ path: `/api/v1/calls/${accepted.body.call_id}` });
      return ['accepted', 'claimed'].includes(call.body.status) ? undefined : call.body;
    };
    let call: Awaited<ReturnType<typeof ended>>;
    await eventually('the call has ended', async () => (call = await ended()) !== undefined);
    expect(call).toMatchObject({ status: 'succeeded', result: { output: { value: 'done' } } });
    expect([0, 1, 2, 3].map((i) => server.notes.get(`moved-${i}`))).toEqual([1, 1, 1, 1]);
  });
});

describe('a program whose worker is killed', () => {
  it('runs again and repeats none of its finished calls', async () => {
    const code = `
for i in range(4): tools.notes_save_note(text=f"killed-{i}", delay_ms=300)
result = "done"`;
    const running = program(code, { timeout_seconds: 60 });
    await eventually('it has made two calls', () => server.notes.has('killed-1'));
    await fleet.kill('python-sandbox');
    await fleet.launch('python-sandbox');
    const { body } = await running;
    expect(body).toMatchObject({ success: true, output: { value: 'done' } });
    expect([0, 1, 2, 3].map((i) => server.notes.get(`killed-${i}`))).toEqual([1, 1, 1, 1]);
    expect(body.metadata.calls).toHaveLength(4);
  });
});
