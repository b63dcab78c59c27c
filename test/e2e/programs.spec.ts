/** Programs that call tools, on a running fleet: their calls are calls like any other, and a lost worker repeats none of them. */
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { eventually } from '@toolfleet/testing';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startCountingMcpServer, type CountingMcpServer } from '../fleet/counting-mcp-server.js';
import { startSampleServices, type SampleServices } from '../fleet/sample-services.js';
import { TestFleet, type Answer } from '../fleet/test-fleet.js';

const DOCS = fileURLToPath(new URL('../../docs/programs.md', import.meta.url));
let samples: SampleServices;
let server: CountingMcpServer;
let fleet: TestFleet;
beforeAll(async () => {
  [samples, server] = await Promise.all([startSampleServices(), startCountingMcpServer()]);
  fleet = await TestFleet.start({
    services: {
      gateway: 1,
      registry: 1,
      budget: 1,
      'builtin-executor': 1,
      'mcp-executor': 1,
      'openapi-executor': 1,
      'python-sandbox': 1,
    },
    tools: ['calculator', 'notes_save_note', 'parcels_getParcel', 'run_program'],
    config: { ...samples.config, mcp_servers: { notes: { url: `${server.origin}/mcp` } } },
    env: { ...samples.env, EGRESS_ALLOWED_ENDPOINTS: `${samples.env['EGRESS_ALLOWED_ENDPOINTS']},${server.origin}` },
  });
});
afterAll(async () => {
  await fleet?.stop();
  await Promise.all([server?.stop(), samples?.stop()]);
});

const program = (code: string, args: object = {}, ask: Parameters<TestFleet['call']>[2] = {}): Promise<Answer> =>
  fleet.call('run_program', { code, ...args }, ask);

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

  it('catches what is refused and what fails', async () => {
    const code = `
found = []
for name, args in [("no_such", {}), ("calculator", {}), ("calculator", {"expression": "1/0"}), ("run_program", {"code": "1"})]:
    try: tools[name](**args)
    except ToolError as e: found.append(e.code)
found`;
    const { body } = await program(code);
    expect(body.output.value).toEqual(['TOOL_NOT_FOUND', 'ARGUMENTS_INVALID', 'TOOL_ERROR', 'PERMISSION_DENIED']);
  });

  it('may call only what it names, as often as it says', async () => {
    const code = 'n = 0\nwhile True:\n    tools.calculator(expression="1")\n    n += 1';
    const limited = await program(code, { max_calls: 3 });
    expect(limited.body).toMatchObject({ success: false, metadata: { code: 'SANDBOX_ERROR' } });
    expect(limited.body.error).toContain('PROGRAM_LIMIT');
    expect(limited.body.metadata.calls).toHaveLength(4);
    const narrowed = await program('tools.calculator(expression="1")', { tools: ['notes_*'] });
    expect(narrowed.body.error).toMatch(/TOOL_NOT_FOUND|PERMISSION_DENIED/);
  });

  it('finds tools and reads their signatures', async () => {
    const { body } = await program(
      'help(tools.calculator)\n[t["name"] for t in tools.search("calculate an expression")]',
    );
    expect(body.output.value).toContain('calculator');
    expect(body.output.stdout).toContain('def calculator(*, expression: str');
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
    await eventually('the call has ended', async () => (call = await ended()) !== undefined, { timeoutMs: 40_000 });
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
