import { execFileSync } from 'node:child_process';
import { ToolError } from '@toolfleet/contracts';
import { SystemClock } from '@toolfleet/resilience';
import { eventually } from '@toolfleet/testing';
import { Sandbox, type RunReply, type RunRequest } from '@toolfleet/wasi-python';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { bundleSandbox, type SandboxScripts } from '../../../libs/kits/wasi-python/spec/bundle.js';
import { classifyReply, corpus } from '../spec/corpus.js';
import { request } from '../../../libs/kits/wasi-python/spec/guest.js';
import { HOSTILE_PROGRAMS } from '../../../libs/kits/wasi-python/spec/hostile-programs.js';
import { makeWheel, type WheelPlan } from '../../../libs/kits/wasi-python/spec/wheel.js';
import { LIMIT_MB, newSandbox } from '../../../libs/kits/wasi-python/spec/sandbox.js';
import { planRun } from './run-arguments.js';

const CANARY = 'CANARY-3fa1';
/** Timeout for programs that must be stopped, long enough for the others to end by themselves on slow machines. */
const SHORT_MS = 400;
/** `deep` imports `base`; `other` is a package that most runs do not name. */
const PLANS: WheelPlan[] = [
  { name: 'base', version: '1.0', files: { 'base.py': 'SECRET = [41]\ndef add(n): return SECRET[0] + n' } },
  { name: 'deep', version: '2.1', files: { 'deep/__init__.py': 'from base import add', 'deep/tests/t.py': '1 +' } },
  { name: 'other', version: '1.0', files: { 'other.py': 'x = "of another tenant"', 'bad.py': 'not Python' } },
];
const PACKAGES = PLANS.map((plan) => ({ name: plan.name, wheel: makeWheel(plan).wheel }));
const clock = new SystemClock();
const events: string[] = [];
let scripts: SandboxScripts;
let sandbox: Sandbox;

beforeAll(async () => {
  process.env['SECRET_CANARY'] = CANARY;
  scripts = await bundleSandbox();
  sandbox = newSandbox(scripts, 2, { packages: PACKAGES, onEvent: (event) => events.push(event) });
  await sandbox.start();
});
afterAll(async () => {
  delete process.env['SECRET_CANARY'];
  await sandbox?.close();
  scripts?.remove();
});

const run = (code: string, fields: Partial<RunRequest> = {}): Promise<RunReply> =>
  sandbox.run(request(code, { memoryLimitMb: LIMIT_MB, ...fields }));

/** What must hold after every program; the limit of the test is the limit of its wait for a thread. */
async function expectUnharmed(after: string): Promise<void> {
  expect(await run('print(len([1]))\nimport math\nmath.floor(2.5)'), after).toMatchObject({
    status: 'ok',
    value: 2,
    stdout: '1\n',
  });
}

describe('packages', () => {
  const packages = ['base', 'deep'];

  it('are imported from bytecode, with their metadata, after the library and before the files of the call', async () => {
    const code = `import deep, importlib.metadata, json
[deep.add(1), deep.__cached__, importlib.metadata.version("deep"), json.__file__.startswith("/packages"), deep.__file__]`;
    const files = { 'deep.py': 'add = None', 'json.py': '' };
    const cached = expect.stringMatching(/^\/packages\/deep\/__pycache__\/__init__\.cpython-3\d+\.pyc$/);
    const value = [42, cached, '2.1', false, '/packages/deep/__init__.py'];
    expect(await run(code, { packages, files })).toMatchObject({ status: 'ok', value });
    const compiled =
      'import os\n[os.path.exists(deep) for deep in ["/packages/deep/__pycache__", "/packages/deep/tests/__pycache__"]]';
    expect((await run(compiled, { packages })).value).toEqual([true, false]);
  });

  it('are only those that the run names', async () => {
    for (const names of [[], packages]) {
      const reply = await run('import other', { packages: names });
      expect(reply.error?.message).toContain("module 'other' is not available in this sandbox");
    }
    const listed = 'import os\nsorted(os.listdir("/packages"))';
    expect((await run(listed)).value).toEqual([]);
    expect(JSON.stringify((await run(listed, { packages })).value)).not.toContain('other');
    expect((await run('import gone', { packages })).error?.message).toContain(
      'and the packages base, deep can be imported; packages with native code cannot be loaded.',
    );
  });

  it.each([
    'open("/packages/base.py", "w")',
    'open("/packages/new.py", "w")',
    'with open("/packages/base.py", "r+b") as f: f.write(b"x")',
    'import os\nos.remove("/packages/base.py")',
    'import os\nos.rename("/packages/base.py", "/data/base.py")',
    'open("/data/x", "w")\nimport os\nos.replace("/data/x", "/packages/base.py")',
    'import os\nos.mkdir("/packages/deep/new")',
    'import os\nos.utime("/packages/base.py", (1, 1))',
    'import os\nos.truncate("/packages/base.py", 0)',
  ])('cannot be written: %s', async (code) => {
    expect((await run(code, { packages })).status).toBe('error');
    await expect(run('import base\nbase.add(1)', { packages })).resolves.toMatchObject({ value: 42 });
  });

  it('keep nothing of a run', async () => {
    await run('import base\nbase.SECRET[0] = 0\nbase.add = None', { packages });
    for (let i = 0; i < 4; i += 1)
      expect(await run('import base\nbase.add(1)', { packages })).toMatchObject({ value: 42 });
  });

  it('ask ctypes for sizes, and get nothing native from it', async () => {
    const sizes = 'from ctypes import c_long, sizeof\nsizeof(c_long)';
    expect(await run(sizes, { packages })).toMatchObject({ value: 4 });
    expect(await run('from ctypes import CDLL', { packages })).toMatchObject({ status: 'error' });
  });

  it('are there in the host that replaces one', async () => {
    process.kill(sandbox.hostPid!, 'SIGKILL');
    expect(await run('import deep\n[deep.add(1), deep.__cached__]', { packages })).toMatchObject({
      value: [42, expect.stringContaining('__pycache__')],
    });
    events.length = 0;
  });
});

describe('hostile programs', () => {
  it.concurrent.each(HOSTILE_PROGRAMS)('$name', async ({ code, ends }) => {
    const [reply, neighbour] = await Promise.all([
      run(code, { timeoutMs: ends[0] === 'timeout' ? SHORT_MS : 20_000, files: { x: 'hi' } }),
      run('sum(range(1000))'),
    ]);
    expect(ends, JSON.stringify(reply.error)).toContain(reply.status);
    expect(JSON.stringify(reply)).not.toMatch(/root:|uid=|CANARY/);
    expect(neighbour).toMatchObject({ status: 'ok', value: 499_500 });
    await expectUnharmed(code);
  });

  it('never brought down the host', () => {
    expect(events.filter((event) => event !== 'sandbox host stderr')).toEqual([]);
  });
});

describe('the corpus of hostile programs', () => {
  it.concurrent.each(corpus().map((row) => [row.id, row.name, row] as const))('%s %s', async (_id, _name, row) => {
    const strictness = row.profile === 'any' ? 'standard' : row.profile;
    const stops = row.expect.includes('timeout');
    const job = { arguments: { code: row.code, strictness }, context: { tenant_id: 't' }, timeout_ms: 60_000 };
    let planned: RunRequest;
    try {
      planned = planRun(job, { maxTimeoutMs: stops ? SHORT_MS : 20_000, memoryLimitMb: LIMIT_MB }).request;
    } catch (error) {
      expect(error).toBeInstanceOf(ToolError);
      expect(['hp-115', 'hp-118']).toContain(row.id);
      return;
    }
    const reply = await sandbox.run(planned);
    expect(row.expect, `${reply.status} ${JSON.stringify(reply.error)}`).toContain(
      classifyReply(reply).find((each) => row.expect.includes(each)) ?? classifyReply(reply)[0],
    );
    const seen = JSON.stringify(reply);
    expect(seen).not.toContain(CANARY);
    const shown = JSON.stringify([reply.value, reply.valueRepr, reply.stdout, reply.stderr]);
    for (const text of row.must_not) expect(shown).not.toContain(text);
    for (const text of row.must) expect(seen).toContain(text);
    await expectUnharmed(row.id);
  });
});

describe('a run that is stopped', () => {
  it('keeps what it had printed', async () => {
    const reply = await run('print("so far")\nwhile True: pass', { timeoutMs: 300 });
    expect(reply).toMatchObject({ status: 'timeout', stdout: 'so far\n' });
  });

  it('ends alone, without its host, a dozen times in a row, and leaks no thread or memory', async () => {
    const programs = ['while True: pass', 'b = bytearray(80 << 20)\nwhile True: pass', 'import time\ntime.sleep(99)'];
    const rss = () =>
      Number(/VmRSS:\s+(\d+)/.exec(execFileSync('cat', [`/proc/${sandbox.hostPid}/status`], { encoding: 'utf8' }))![1]);
    const host = sandbox.hostPid;
    let before = 0;
    for (let i = 0; i < 12; i++) {
      const timeoutMs = i % 3 === 1 ? 400 : 60;
      expect((await run(programs[i % 3]!, { timeoutMs })).status).toBe('timeout');
      if (i === 5) before = rss();
    }
    // A run that does not end by itself takes its host with it. How soon it ends is measured by the benchmark of the sandbox.
    expect(sandbox.hostPid).toBe(host);
    expect(rss()).toBeLessThan(before * 1.5);
    await expectUnharmed('a dozen kills');
  });

  it('can be cancelled by its caller', async () => {
    const abort = new AbortController();
    const running = sandbox.run(request('while True: pass'), { onStart: () => abort.abort() }, abort.signal);
    expect((await running).status).toBe('cancelled');
    expect((await sandbox.run(request('1'), {}, AbortSignal.abort())).status).toBe('cancelled');
    await expectUnharmed('a cancelled run');
  });

  it('reports lines while it runs', async () => {
    const lines: string[] = [];
    const code = 'import time\nfor i in range(6):\n  print("line", i)\n  time.sleep(0.15)\nprint("one")\nprint("end")';
    const reply = await sandbox.run(request(code, { reportsProgress: true }), {
      onProgress: (text) => lines.push(text),
    });
    expect(reply.stdout.split('\n')).toHaveLength(9);
    expect(lines.join('\n')).toContain('line 2');
    expect(lines.join('\n').endsWith('one\nend')).toBe(true);
  });
});

describe('many runs at once', () => {
  it('returns each its own result', async () => {
    const replies = await Promise.all(Array.from({ length: 60 }, (_, i) => run(`print(${i})\n${i} * 2`)));
    expect(replies.map(({ value, stdout }) => [value, stdout])).toEqual(
      Array.from({ length: 60 }, (_, i) => [i * 2, `${i}\n`]),
    );
  });

  it('waits if the limits would exceed the memory budget together', async () => {
    const big = 'import time\nb = bytearray(60 << 20)\ntime.sleep(0.2)\nlen(b)';
    const replies = await Promise.all([run(big), run(big, { memoryLimitMb: 2 * LIMIT_MB }), run(big)]);
    expect(replies.map((reply) => reply.value)).toEqual([60 << 20, 60 << 20, 60 << 20]);
  });
});

describe('the folder of a run', () => {
  it('comes back: files that it wrote, not those that it was given', async () => {
    const code = `
import os
os.makedirs("out"); open("out/a.txt", "w").write("A"); open("b.bin", "wb").write(b"\\x00")
open("/tmp/scratch", "w").write("s"); open("gone", "w").close(); os.remove("gone")
open("given.txt", "a").write("!")`;
    const { files, filesOmitted } = await run(code, { files: { 'given.txt': 'g', 'kept.txt': 'k' } });
    const shown = files?.map(({ name, bytes }) => [name, Buffer.from(bytes).toString('hex')]);
    expect(shown?.toSorted()).toEqual([
      ['b.bin', '00'],
      ['given.txt', Buffer.from('g!').toString('hex')],
      ['out/a.txt', Buffer.from('A').toString('hex')],
    ]);
    expect(filesOmitted).toEqual([]);
    expect((await run('1')).files).toBeUndefined();
  });

  it('comes back up to a limit, with the names of the rest', async () => {
    const { files, filesOmitted } = await run('for n in range(4): open(f"{n}", "wb").write(bytes(700_000))');
    expect([files?.map(({ name }) => name), filesOmitted]).toEqual([
      ['0', '1'],
      ['2', '3'],
    ]);
  });

  it('is empty for the next run on the same thread, whatever ended the run before', async () => {
    const leave =
      'import os\nfor folder in ("/data", "/tmp"): open(folder + "/secret", "w").write("S3CRET")\nos.chdir("/tmp")\n';
    for (const end of [
      '1',
      '1 / 0',
      'import os; os._exit(1)',
      'import os; os.abort()',
      'while True: print("x" * 9999)',
    ]) {
      await run(leave + end);
      const look = 'import os\n[os.listdir("/data"), os.listdir("/tmp"), os.getcwd()]';
      const seen = await Promise.all([run(look), run(look), run(look)]);
      for (const { value } of seen) expect(value, end).toEqual([[], [], '/data']);
    }
  });
});

describe('the sandbox host', () => {
  it('may only read its own files', async () => {
    const status = execFileSync('cat', [`/proc/${sandbox.hostPid}/cmdline`], { encoding: 'utf8' });
    expect(status).toContain('--permission');
    expect(status).not.toMatch(/--allow-(fs-write|child-process|addons)/);
    expect(execFileSync('cat', [`/proc/${sandbox.hostPid}/environ`], { encoding: 'utf8' })).not.toContain(CANARY);
  });

  it('is replaced when it is killed, and each of its runs gets one reply', async () => {
    const first = sandbox.hostPid!;
    const replies = Array.from({ length: 20 }, (_, i) => run(`import time\ntime.sleep(0.05)\n${i}`));
    await clock.sleep(120);
    process.kill(first, 'SIGKILL');
    const values = (await Promise.all(replies)).map(({ status, value }) => (status === 'ok' ? value : status));
    expect(values).toEqual(Array.from({ length: 20 }, (_, i) => i));
    expect(sandbox.hostPid).not.toBe(first);
    await expectUnharmed('kill -9 of the sandbox host');
  });

  it('reports a run whose host dies twice as crashed and does not repeat it', async () => {
    let starts = 0;
    const victim = sandbox.run(request('import time\ntime.sleep(30)', { timeoutMs: 60_000 }), {
      onStart: () => (starts += 1),
    });
    for (let deaths = 1; deaths <= 2; deaths++) {
      await eventually('it runs', () => starts === deaths);
      process.kill(sandbox.hostPid!, 'SIGKILL');
      await eventually('it is gone', () => !sandbox.isReady);
    }
    expect(await victim).toMatchObject({ status: 'crashed', error: { type: 'SandboxHostLost' } });
    await expectUnharmed('two deaths');
  });

  it('is killed when it hangs', async () => {
    const hung = sandbox.hostPid!;
    const { promise: started, resolve: onStart } = Promise.withResolvers<void>();
    const running = sandbox.run(request('import time\ntime.sleep(30)', { timeoutMs: 500 }), { onStart });
    await started;
    process.kill(hung, 'SIGSTOP');
    expect(await running).toMatchObject({ status: 'timeout' });
    await expectUnharmed('a stopped host');
    expect(sandbox.hostPid).not.toBe(hung);
  });
});
