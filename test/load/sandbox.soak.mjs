/**
 * The sandbox over thousands of runs: 200 kills in a row, then 5,000 mixed runs. Fails when a result is wrong, when a run
 * ends as it must not, or when the memory of the host drifts by more than a tenth.
 *
 *   node test/load/sandbox.soak.mjs [kills] [runs]      after `npm run build`; some minutes
 */
import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const root = new URL('../../', import.meta.url);
const dist = (path) => new URL(`libs/kits/wasi-python/dist/${path}`, root);
const { Sandbox } = await import(dist('sandbox.js'));
const { namedInterpreter } = await import(dist('wasi/interpreter.js'));
const { SystemClock } = await import(new URL('libs/kits/base/dist/index.js', root));

const [kills = 200, runs = 5_000] = process.argv.slice(2).map(Number);
const THREADS = 2;
const { PYTHON_WASI_WASM_PATH, PYTHON_WASI_STDLIB_PATH } = process.env;
const interpreter = { ...namedInterpreter(PYTHON_WASI_WASM_PATH, PYTHON_WASI_STDLIB_PATH), tableLimit: 10_000 };
const events = [];
const sandbox = new Sandbox({
  clock: new SystemClock(),
  hostScript: fileURLToPath(dist('sandbox-host.js')),
  graceMs: 5_000,
  recycleRuns: Number.POSITIVE_INFINITY,
  recycleRssMb: Number.POSITIVE_INFINITY,
  onEvent: (event, facts) => events.push(`${event} ${JSON.stringify(facts)}`),
  settings: {
    interpreter,
    threadScript: fileURLToPath(dist('wasi/sandbox-thread.js')),
    threads: THREADS,
    programs: 0,
    outputCap: 1 << 20,
    memoryLimitMb: 512,
    memoryBudgetMb: 1_024,
    warmUpMs: 20_000,
  },
});
await sandbox.start();
const pid = sandbox.hostPid;
const rssMb = () => Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))[1]) / 1_024;
const threads = () => readdirSync(`/proc/${pid}/task`).length;
const run = (code, fields = {}) =>
  sandbox.run({
    code,
    args: null,
    stdin: '',
    files: {},
    strictness: 'standard',
    extraModules: [],
    session: null,
    keepSession: false,
    timeoutMs: 30_000,
    memoryLimitMb: 512,
    reportsProgress: false,
    ...fields,
  });
const settle = () => new Promise((done) => setTimeout(done, 1_500));
const problems = [];
const quantile = (list, q) => list.toSorted((a, b) => a - b)[Math.min(list.length - 1, Math.floor(list.length * q))];

/** Kind of program: its code, its request, and whether its reply is right. */
const KINDS = [
  (i) => [`print(${i})\n${i} * 2`, {}, (r) => r.value === i * 2 && r.stdout === `${i}\n`],
  (i) => [
    'import json, statistics\njson.loads(json.dumps([statistics.mean(args)]))',
    { args: [i, i + 2] },
    (r) => r.value[0] === i + 1,
  ],
  (i) => ['len(files["f"])', { files: { f: 'x'.repeat(i % 1_000) } }, (r) => r.value === i % 1_000],
  () => ['1 / 0', {}, (r) => r.error?.type === 'ZeroDivisionError'],
  () => ['import os', { strictness: 'strict' }, (r) => r.status === 'policy'],
  (i) => [`b = bytearray(${20 + (i % 60)} << 20)\nlen(b) >> 20`, {}, (r) => r.value === 20 + (i % 60)],
  () => ['bytearray(1 << 30)', {}, (r) => r.status === 'memory'],
  (i) => ['import builtins\nbuiltins.len = lambda x: -1\nargs', { args: i }, (r) => r.value === i],
  () => ['import os\nos._exit(3)', {}, (r) => r.status === 'exit' && r.exitCode === 3],
  () => ['for i in range(3000): print("x" * 100)', {}, (r) => r.stdout.length === 303_000],
  () => [
    'import sys\nsys.setrecursionlimit(10**6)\nx = []\nfor _ in range(50000): x = [x]\nrepr(x)',
    {},
    (r) => ['crashed', 'error'].includes(r.status),
  ],
];

for (let i = 0; i < 200; i++) await run('pass');
if (kills > 0) await killInARow();
if (runs > 0) await mixed();

async function killInARow() {
  const programs = ['while True: pass', 'b = bytearray(300 << 20)\nwhile True: pass', 'import time\ntime.sleep(99)'];
  // From the deadline to the end of the run, and to its answer: a run right after another may wait for a new thread.
  const [overshoot, toAnswer] = [[], []];
  const warmUp = Math.min(20, kills / 4);
  let before = 0;
  for (let i = 0; i < kills; i++) {
    if (i === warmUp) {
      await settle();
      before = rssMb();
    }
    const timeoutMs = i % 3 === 1 ? 400 : 60;
    const began = performance.now();
    const reply = await run(programs[i % 3], { timeoutMs });
    overshoot.push(reply.usage.wallMs - timeoutMs);
    toAnswer.push(performance.now() - began - timeoutMs);
    if (reply.status !== 'timeout') problems.push(`kill ${i} ended as ${reply.status}`);
  }
  await settle();
  const drift = rssMb() / before - 1;
  const p99 = quantile(overshoot, 0.99);
  console.log(
    `${kills} kills: overshoot p50 ${quantile(overshoot, 0.5).toFixed(1)}, p99 ${p99.toFixed(1)} ms, to the answer p99 ${quantile(toAnswer, 0.99).toFixed(1)} ms; RSS ${before.toFixed(0)} MB, drift ${(drift * 100).toFixed(1)} %; threads ${threads()}`,
  );
  if (drift > 0.1) problems.push(`memory drifted by ${(drift * 100).toFixed(1)} % over ${kills} kills`);
  if (p99 > 100) problems.push(`overshoot p99 ${p99.toFixed(1)} ms (goal 100)`);
}

async function mixed() {
  let next = 0;
  let before = 0;
  const began = performance.now();
  const batch = async (until) => {
    await Promise.all(
      Array.from({ length: THREADS }, async () => {
        while (next < until) {
          const i = next++;
          const [code, fields, isRight] = KINDS[i % KINDS.length](i);
          const reply = await run(code, fields);
          if (!isRight(reply)) problems.push(`run ${i} (${code.slice(0, 40)}): ${JSON.stringify(reply).slice(0, 300)}`);
        }
      }),
    );
    await settle();
  };
  await batch(Math.floor(runs / 5));
  before = rssMb();
  for (let part = 2; part <= 5; part++) {
    await batch(Math.floor((runs * part) / 5));
    console.log(`${next} mixed runs, RSS ${rssMb().toFixed(0)} MB, threads ${threads()}, ${problems.length} problems`);
  }
  const drift = rssMb() / before - 1;
  console.log(
    `${runs} mixed runs in ${((performance.now() - began) / 1_000).toFixed(0)} s; RSS drift ${(drift * 100).toFixed(1)} %`,
  );
  if (drift > 0.1) problems.push(`memory drifted by ${(drift * 100).toFixed(1)} % over ${runs} runs`);
}

if (sandbox.hostPid !== pid) problems.push('the host was replaced');
await sandbox.close();
for (const problem of [...problems, ...events].slice(0, 20)) console.log(`! ${problem}`);
process.exit(problems.length === 0 ? 0 : 1);
