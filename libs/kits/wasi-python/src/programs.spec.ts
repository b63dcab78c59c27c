import { setTimeout as sleep } from 'node:timers/promises';
import type { Json, JsonObject } from '@toolfleet/base';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { bundleSandbox, type SandboxScripts } from '../spec/bundle.js';
import { request } from '../spec/guest.js';
import { LIMIT_MB, newSandbox } from '../spec/sandbox.js';
import type { RunReply, RunRequest } from './python/guest-protocol.js';
import type { Sandbox } from './sandbox.js';

/** Programs in real sandboxes; the gateway's side is a table of tools in this file. */
let scripts: SandboxScripts;
let sandbox: Sandbox;
beforeAll(async () => {
  scripts = await bundleSandbox();
  sandbox = newSandbox(scripts, 1, { programs: 3 });
  await sandbox.start();
});
afterAll(async () => {
  await sandbox?.close();
  scripts?.remove();
});

interface Ask extends JsonObject {
  n: number;
  op: string;
  tool: string;
  arguments: JsonObject;
}

const TOOLS: Record<string, (args: JsonObject) => Promise<Json>> = {
  add: async ({ a, b }) => Number(a) + Number(b),
  echo: async (args) => args,
  slow: async ({ ms }) => {
    await sleep(Number(ms));
    return Number(ms);
  },
};

/** Runs a program and records what it asked for. */
async function run(
  code: string,
  fields: Partial<RunRequest> = {},
  inputs: Json = null,
): Promise<{ reply: RunReply; asked: Ask[]; most: number }> {
  const asked: Ask[] = [];
  let [open, most] = [0, 0];
  const program = { seed: 'seed', startedAt: 1_700_000_000_000, inputs, wallMs: 10_000 };
  const reply = await sandbox.run(request(code, { memoryLimitMb: LIMIT_MB, program, ...fields }), {
    onAsk: (line, answer) => {
      const ask = JSON.parse(line) as Ask;
      asked.push(ask);
      open += 1;
      most = Math.max(most, open);
      const tool = TOOLS[ask.tool];
      const outcome = tool
        ? tool(ask.arguments).then((output) => ({ n: ask.n, ok: true, output, text: JSON.stringify(output) }))
        : Promise.resolve({
            n: ask.n,
            code: ask.tool === 'lost' ? 'OUTCOME_UNKNOWN' : 'TOOL_NOT_FOUND',
            message: `no ${ask.tool}`,
            hint: 'Check the name',
            retryable: false,
          });
      void outcome.then((body) => {
        open -= 1;
        answer(JSON.stringify(body));
      });
    },
  });
  return { reply, asked, most };
}

describe('a program', () => {
  it('calls a tool and gets its output', async () => {
    const { reply, asked } = await run('tools.add(a=1, b=inputs["b"])', {}, { b: 41 });
    expect(reply).toMatchObject({ status: 'ok', value: 42 });
    expect(asked).toEqual([{ n: 1, op: 'call', tool: 'add', arguments: { a: 1, b: 41 } }]);
  });

  it('calls several at once with gather, and gets the outputs in order', async () => {
    const { reply, asked, most } = await run(
      'gather(*[tools.slow(ms=m) for m in (90, 60, 30)], tools["add"](a=1, b=1))',
    );
    expect(reply).toMatchObject({ status: 'ok', value: [90, 60, 30, 2] });
    expect(asked.map(({ n, tool }) => [n, tool])).toEqual([
      [1, 'slow'],
      [2, 'slow'],
      [3, 'slow'],
      [4, 'add'],
    ]);
    expect(most).toBeGreaterThan(2);
  });

  it('has at most eight calls open, and makes them all', async () => {
    const { reply, asked, most } = await run('gather(*[tools.slow(ms=n) for n in range(50)])');
    expect(reply).toMatchObject({ status: 'ok', value: Array.from({ length: 50 }, (_, n) => n) });
    expect(asked.map(({ n }) => n)).toEqual(Array.from({ length: 50 }, (_, n) => n + 1));
    expect(most).toBe(8);
  });

  it('has one call open when it asks with much', async () => {
    const { reply, most } = await run('len(gather(*[tools.echo(text="x" * 300_000) for n in range(4)]))');
    expect([reply.value, most]).toEqual([4, 1]);
  });

  it('calls several at once with asyncio', async () => {
    const code = `
import asyncio
async def both(n):
    await asyncio.sleep(0.01)
    return await tools.add.aio(a=n, b=await tools.slow.aio(ms=20 - n))
result = await asyncio.gather(*[both(n) for n in range(3)])`;
    const { reply, most } = await run(code);
    expect(reply.error).toBeUndefined();
    expect(reply.value).toEqual([20, 20, 20]);
    expect(most).toBe(3);
  });

  it('catches errors with code, hint and retryability', async () => {
    const code = `
try: tools.missing()
except ToolError as e: first = [e.code, e.hint, e.retryable, e.tool]
try: tools.lost()
except OutcomeUnknown as e: second = str(e)
[first, second]`;
    expect((await run(code)).reply.value).toEqual([
      ['TOOL_NOT_FOUND', 'Check the name', false, 'missing'],
      'lost: no lost (OUTCOME_UNKNOWN)',
    ]);
  });

  it('fails with a traceback that points into the program', async () => {
    const { reply } = await run('x = 1\ndef f():\n    return tools.missing()\nf()');
    expect(reply).toMatchObject({ status: 'error', error: { type: 'ToolError', line: 3 } });
    expect(reply.error?.traceback).toMatch(/line 4, in <module>[\s\S]*line 3, in f/);
    expect(reply.error?.traceback).not.toContain('<sandbox>');
  });

  it('has no tools unless it is a program', async () => {
    const reply = await sandbox.run(request('import os\nos.open("/dev/tools", os.O_RDWR)'));
    expect(reply).toMatchObject({ status: 'error', error: { type: 'FileNotFoundError' } });
  });
});

describe('a hostile program', () => {
  it.each<[string, string, RunReply['status']]>([
    ['floods the device', 'while True: tools.add.start(a=1, b=1)', 'output_limit'],
    ['asks with more than a mebibyte', 'tools.echo(text="x" * 2**21)', 'output_limit'],
    [
      'never ends its line',
      'import os\nfd = os.open("/dev/tools", os.O_RDWR)\nwhile True: os.write(fd, b"x" * 60000)',
      'output_limit',
    ],
    [
      'replaces what calls tools',
      'Tool = type(tools.add)\nTool.__call__ = lambda self, **a: "forged"\ntools.add(a=1)',
      'ok',
    ],
    [
      'closes the device',
      'tools.add(a=1, b=1)\nimport os\nfor fd in range(3, 64):\n    try: os.close(fd)\n    except OSError: pass\ntools.add(a=1, b=1)',
      'crashed',
    ],
  ])('that %s harms only itself', async (_what, code, status) => {
    const [{ reply }, neighbour] = await Promise.all([run(code), run('tools.add(a=20, b=22)')]);
    expect([status, 'timeout'], JSON.stringify(reply.error)).toContain(reply.status);
    expect(neighbour.reply.value).toBe(42);
  });

  it('that forges questions gets only answers to them', async () => {
    const code = `
import os, json
fd = os.open("/dev/tools", os.O_RDWR)
os.write(fd, json.dumps({"n": 7, "op": "call", "tool": "add", "arguments": {"a": 1, "b": 2}}).encode() + b"\\n")
json.loads(os.read(fd, 65536))["output"]`;
    const { reply, asked } = await run(code);
    expect(reply.value).toBe(3);
    expect(asked.map(({ n }) => n)).toEqual([7]);
  });
});

describe('a second run of a program', () => {
  const CODE = `
import random, time, datetime
words = {"alpha", "beta", "gamma", "delta"}
for word in words: tools.echo(word=word, r=random.random(), t=time.time(), now=str(datetime.datetime.now()))
time.sleep(0.01)
[time.time(), random.randint(0, 10**9)]`;

  it('takes the same path', async () => {
    const [first, second] = [await run(CODE), await run(CODE)];
    expect(first.reply.status).toBe('ok');
    expect(first.asked).toHaveLength(4);
    expect(second.asked).toEqual(first.asked);
    expect(second.reply.value).toEqual(first.reply.value);
    expect((first.reply.value as number[])[0]).toBeCloseTo(1_700_000_000.01, 1);
  });
});

describe('a program that waits', () => {
  it('leaves its thread to others and is not charged for the wait', async () => {
    const waiting = run('tools.slow(ms=2500)', { timeoutMs: 2_000 });
    await sleep(100);
    const other = await sandbox.run(request('1 + 1', { memoryLimitMb: LIMIT_MB }));
    expect(other).toMatchObject({ status: 'ok', value: 2 });
    const { reply } = await waiting;
    expect(reply).toMatchObject({ status: 'ok', value: 2_500 });
  });

  it('is not charged for many brief waits', async () => {
    const { reply } = await run('sum(tools.slow(ms=18) for _ in range(50))', { timeoutMs: 800 });
    expect(reply).toMatchObject({ status: 'ok', value: 900 });
  });

  it('ends at its wall time', async () => {
    const program = { seed: 's', startedAt: 0, inputs: null, wallMs: 300 };
    const { reply } = await run('tools.slow(ms=5000)', { program });
    expect(reply).toMatchObject({ status: 'timeout', error: { message: 'the run took longer than 0.3 s' } });
  });

  it('is stopped when it computes too long', async () => {
    const { reply } = await run('tools.add(a=1, b=1)\nwhile True: pass', { timeoutMs: 300 });
    expect(reply).toMatchObject({ status: 'timeout' });
  });
});
