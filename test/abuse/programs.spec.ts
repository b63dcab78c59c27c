/** Programs, Python runs and agents that take more than their share of memory or of a worker, while another tenant calls. */
import type { Redis } from 'ioredis';
import { eventually } from '@toolfleet/testing';
import { endChild } from '@toolfleet/testing';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startCountingMcpServer, type CountingMcpServer } from '../fleet/counting-mcp-server.js';
import { startScriptedModel } from '../fleet/scripted-model.js';
import { AbusedFleet, FULL_LENGTH } from './abused-fleet.js';

/** Heap of a pod of 1 GiB. */
const HEAP_MB = 768;
const RUNNING = '{fleet}:python-runs:active';
const WAITING = '{fleet}:python-runs:prioritized';

let abused: AbusedFleet;
let server: CountingMcpServer;
let model: Awaited<ReturnType<typeof startScriptedModel>>;
beforeAll(async () => {
  server = await startCountingMcpServer();
  model = await startScriptedModel();
  abused = await AbusedFleet.start({
    services: { gateway: 1, registry: 1, budget: 1, 'builtin-executor': 1, 'mcp-executor': 1, 'python-sandbox': 1 },
    tools: ['calculator', 'run_program', 'execute_python', 'notes_save_note'],
    env: {
      BUILTIN_TOOLSETS: 'compute',
      PYTHON_SANDBOX_THREADS: '2',
      PYTHON_SESSION_QUOTA_MB: '4',
      EGRESS_ALLOWED_ENDPOINTS: server.origin,
      LLM_BASE_URL: model.baseUrl,
      LLM_MICRO_USD_PER_1K_TOKENS: '1',
    },
    envOf: { gateway: { NODE_OPTIONS: `--max-old-space-size=${HEAP_MB}` } },
    config: {
      mcp_servers: { notes: { url: `${server.origin}/mcp`, rate_limit: 0 } },
      tool_settings: {
        run_program: { rate_limit: 0 },
        execute_python: { rate_limit: 0 },
        multi_agent: { rate_limit: 0 },
      },
    },
  });
  await abused.fleet.launch('builtin-executor', { BUILTIN_TOOLSETS: 'agent' });
  await abused.fleet.untilListed(['multi_agent']);
});
afterAll(async () => {
  await abused?.stop();
  await server?.stop();
  if (model) await endChild(model.process);
});

const attack = (code: string, fields: object = {}) =>
  abused.attack({
    path: '/api/v1/tools/run_program/execute',
    body: { arguments: { code, max_calls: 500, ...fields } },
  });

/**
 * Writes questions to the device itself, as fast as it takes them, then waits for answers.
 * @param filler Python expression of the bytes in place of `%s`
 */
const raw = (questions: number, question: string, filler = 'b"1" * 1_000_000'): string => `
import json
os = json.decoder.scanner.re.enum.sys.modules["os"]
fd = os.open("/dev/tools", os.O_RDWR)
filler = ${filler}
for n in range(1, ${questions} + 1):
    line = b'{"n":%d,${question}}\\n' % (n, filler)
    while line: line = line[os.write(fd, line):]
while os.read(fd, 1 << 16): pass`;

const questions = FULL_LENGTH ? 1_500 : 300;

/** Questions that cost more to parse than others of a megabyte. */
const COSTLY: [string, string][] = [
  [
    'with many names',
    raw(
      questions,
      '"op":"call","tool":"calculator","arguments":{%s}',
      `b",".join(b'"k%d":1' % i for i in range(90_000))`,
    ),
  ],
  [
    'with many levels',
    raw(questions, '"op":"call","tool":"calculator","arguments":{"expression":%s}', 'b"[" * 500_000 + b"]" * 500_000'),
  ],
];

describe('a program that asks with a megabyte', () => {
  it.each([
    ['over its functions', `for i in range(${questions}): tools.calculator.start(expression="1" * 1_000_000)`],
    ['past its functions', raw(questions, '"op":"call","tool":"calculator","arguments":{"expression":"%s"}')],
    ['with the name of a tool', raw(questions, '"op":"call","tool":"%s","arguments":{}')],
    ['with a search', raw(questions, '"op":"search","query":"%s"')],
    ...(FULL_LENGTH ? COSTLY : []),
  ])(`${questions} times, %s, ends no gateway`, async (how, code) => {
    const harm = await abused.measured(`${questions} questions of 1 MB ${how}`, async () => {
      const { body } = await attack(code);
      // On a slow machine its time ends first.
      expect(['OUTPUT_LIMIT', 'ATTEMPT_TIMED_OUT']).toContain(body.metadata.code);
    });
    expect(harm.memoryMb.gateway).toBeLessThan(700);
    expect(harm.memoryMb['python-sandbox']).toBeLessThan(1_000);
    expect(harm.p99Ms).toBeLessThan(harm.maxP99Ms);
  });
});

describe('programs that wait for a tool', () => {
  const waitMs = FULL_LENGTH ? 8_000 : 4_000;

  const victimProgram = { tool: 'run_program', arguments: { code: '%n + 42' }, expected: '"success":true' };

  it('leave a slot to the programs of another tenant, and all end', async () => {
    let note = 0;
    const wait = () => attack(`tools.notes_save_note(text="wait-${(note += 1)}", delay_ms=${waitMs})`);
    const harm = await abused.measured(
      'twelve programs that wait',
      async () => {
        const ends = await Promise.all(Array.from({ length: 12 }, wait));
        expect(ends.map(({ body }) => body.success)).toEqual(ends.map(() => true));
      },
      victimProgram,
    );
    expect(harm.p99Ms).toBeLessThan(harm.maxP99Ms);
  });
});

describe('agents that wait for their model', () => {
  const waitMs = FULL_LENGTH ? 8_000 : 3_000;
  const agents = (instruction: string, key: string) =>
    abused.fleet.call('multi_agent', { tasks: [{ name: 'task', instruction }] }, { key });

  it('leave a slot to the agents of another tenant', async () => {
    const harm = await abused.measured(
      'eight agents that wait',
      async () => {
        const wait = () => agents(`SLEEP ${waitMs}\nSAY done`, abused.fleet.keys['globex']!);
        const ends = await Promise.all(Array.from({ length: 8 }, wait));
        for (const { status } of ends) expect([200, 429, 503, 504]).toContain(status);
      },
      {
        tool: 'multi_agent',
        arguments: { tasks: [{ name: 'task', instruction: 'SAY done' }] },
        expected: '"success":true',
      },
    );
    expect(harm.p99Ms).toBeLessThan(harm.maxP99Ms);
  });
});

describe.runIf(FULL_LENGTH)('a caller that uses the keys of the calls of its program first', () => {
  it('changes nothing for the program', async () => {
    const code = 'for k in range(3): tools.notes_save_note(text=f"inner-{k}", delay_ms=1_000)\n"done"';
    const { body, text } = await abused.attack({
      path: '/api/v1/tools/run_program/execute',
      body: { mode: 'async', arguments: { code } },
    });
    expect(body.call_id, text).toEqual(expect.any(String));
    const taken = await Promise.all(
      [1, 2, 3, 4].map((n) =>
        abused.attack({
          path: '/api/v1/tools/notes_save_note/execute',
          body: { arguments: { text: `outer-${n}` }, idempotency_key: `${body.call_id}#${n}` },
        }),
      ),
    );
    expect(taken.map(({ status }) => status)).toEqual([200, 200, 200, 200]);
    const path = `/api/v1/calls/${body.call_id}`;
    await expect.poll(async () => (await abused.attack({ path })).body.status).toBe('succeeded');
    for (const note of ['inner-0', 'inner-1', 'inner-2', 'outer-1', 'outer-2', 'outer-3', 'outer-4'])
      expect([note, server.notes.get(note)]).toEqual([note, 1]);
  });
});

describe('a revoked key', () => {
  it('starts none of its queued Python runs 5 s later', async () => {
    const issued = await abused.fleet.ask({ path: '/api/v1/keys', body: { client: 'leaver', tier: 'wide' } });
    expect(issued.status, issued.text).toBe(201);
    const redis = abused.fleet.redis.client() as Redis;
    const from = performance.now();
    const runs = Array.from({ length: 8 }, async (_, index) => {
      const code = `import time\ntime.sleep(4)\n${index}`;
      const { body, status } = await abused.fleet.call('execute_python', { code }, { key: String(issued.body.token) });
      return { code: body.code ?? body.metadata?.code, status, endedAt: performance.now() };
    });
    await eventually('two run and the others wait', async () => {
      const [running, waiting] = await Promise.all([redis.llen(RUNNING), redis.zcard(WAITING)]);
      return running === 2 && waiting === 6;
    });
    const revoked = await abused.fleet.ask({ method: 'DELETE', path: `/api/v1/keys/${issued.body.id}` });
    expect(revoked.status).toBe(204);
    const ends = (await Promise.all(runs)).toSorted((a, b) => a.endedAt - b.endedAt);
    // Two run at a time; those that began within 5 s end as they would have.
    const isRefused = ({ code }: (typeof ends)[number]) => code === 'UNAUTHENTICATED';
    const begun = ends.filter((end) => !isRefused(end));
    expect(begun.length, JSON.stringify(ends)).toBeLessThanOrEqual(6);
    // The others are refused when a worker takes them, all in less time than one run takes here.
    const runMs = begun[0]!.endedAt - from;
    for (const { endedAt } of ends.filter(isRefused)) expect(endedAt - begun.at(-1)!.endedAt).toBeLessThan(runMs);
  });
});

describe('Python sessions', () => {
  it('of one tenant fill no more of Redis than its quota, with a note in the metadata', async () => {
    const write = async (index: number) => {
      const code = `x${index} = "y" * 900_000`;
      const { body } = await abused.attack({
        path: '/api/v1/tools/execute_python/execute',
        body: { arguments: { code, session_id: `session-${index}` } },
      });
      return body.metadata;
    };
    let last = await write(0);
    for (let index = 1; last.session_kept && index < 20; index += 1) last = await write(index);
    expect(last).toMatchObject({
      session_kept: false,
      session_note: expect.stringContaining('PYTHON_SESSION_QUOTA_MB'),
    });
    const redis = abused.fleet.redis.client() as Redis;
    expect(Number(await redis.hget('{s:globex:}:bytes', ''))).toBeLessThanOrEqual(4 * 1024 * 1024);
  });
});
