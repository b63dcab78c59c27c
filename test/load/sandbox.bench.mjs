/**
 * The sandbox against spawning the system's own python3, in one run: only ratios carry over to other machines.
 *
 *   npm run bench:sandbox [-- --quick] [--save]      after `npm run build`
 *
 * With TOOLFLEET_URL and TOOLFLEET_API_KEY of a running fleet it also measures a call end to end over HTTP. Ends with
 * code 1 when a line of the table misses its goal. PYTHON_WASI_WASM_PATH and PYTHON_WASI_STDLIB_PATH name another
 * interpreter than the packaged one, as they do for the service.
 */
import { spawn } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { availableParallelism, cpus } from 'node:os';
import { fileURLToPath } from 'node:url';

const root = new URL('../../', import.meta.url);
const dist = (path) => new URL(`libs/kits/wasi-python/dist/${path}`, root);
if (!existsSync(dist('sandbox-host.js'))) {
  console.error('libs/kits/wasi-python is not built: npm run build');
  process.exit(2);
}
const { SandboxProcess } = await import(dist('sandbox-process.js'));
const { loadInterpreter, namedInterpreter } = await import(dist('wasi/interpreter.js'));
const { takeSnapshot } = await import(dist('wasi/snapshot.js'));
const { restore } = await import(dist('wasi/restore.js'));
const { ThreadPool } = await import(dist('wasi/thread-pool.js'));
const { warmUp } = await import(dist('wasi/warm-up.js'));
const { CapturedOutput } = await import(dist('wasi/captured-output.js'));
const { encodeRequest } = await import(dist('python/guest-protocol.js'));
const { SystemClock } = await import(new URL('libs/kits/base/dist/index.js', root));

const quick = process.argv.includes('--quick');
const rounds = quick ? 40 : 150;
/** Never a version-manager shim from the PATH: those start several times slower and flatter every ratio. */
const PYTHON = process.env.BENCH_PYTHON ?? '/usr/bin/python3';
const THREADS = 2;
const LIMIT_MB = 512;
/** More threads with measured memory. */
const MANY = 10;
const { PYTHON_WASI_WASM_PATH, PYTHON_WASI_STDLIB_PATH } = process.env;
const interpreter = { ...namedInterpreter(PYTHON_WASI_WASM_PATH, PYTHON_WASI_STDLIB_PATH), tableLimit: 10_000 };
const clock = new SystemClock();
const pause = (ms) => new Promise((done) => setTimeout(done, ms));
const quantile = (list, q) => list.toSorted((a, b) => a - b)[Math.min(list.length - 1, Math.floor(list.length * q))];
const p50 = (list) => quantile(list, 0.5);

const PRINT = 'print(1)';
const IMPORTS = `import json, re, datetime, decimal, statistics
print(json.dumps([statistics.mean([1, 2, 3]), str(decimal.Decimal("1.1") * 3)]))`;
const KERNELS = {
  calls: 'def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)\nfib(22)',
  floats: `
x, y, vx, vy = 1.0, 0.0, 0.0, 1.0
for _ in range(60000):
  r3 = (x * x + y * y) ** 1.5
  vx -= x / r3 * 0.001; vy -= y / r3 * 0.001
  x += vx * 0.001; y += vy * 0.001`,
  integers: `
n = 60000
sieve = [True] * n
for i in range(2, 245):
  if sieve[i]:
    for j in range(i * i, n, i): sieve[j] = False
sum(sieve)`,
  text: `
words = {}
for i in range(30000):
  word = "w%d" % (i * 7919 % 1000)
  words[word] = words.get(word, 0) + 1
" ".join(sorted(words)).upper().split()`,
  json: 'import json\nrows = [{"i": i, "s": str(i) * 3, "l": list(range(5))} for i in range(2000)]\njson.loads(json.dumps(rows))',
  regex: 'import re\nre.findall(r"([a-z.]+)@([a-z]+)[.]com", "some text a.b@example.com and more " * 2500)',
};
const timed = (kernel) =>
  `import time\n_start = time.perf_counter()\n${kernel}\nprint("TOOK", time.perf_counter() - _start)`;

function native(code) {
  const began = performance.now();
  return new Promise((resolve, reject) => {
    const child = spawn(PYTHON, ['-c', code], { stdio: ['ignore', 'pipe', 'inherit'] });
    let out = '';
    child.stdout.on('data', (chunk) => (out += chunk));
    child.once('error', reject);
    child.once('close', () => resolve({ ms: performance.now() - began, out }));
  });
}
const request = (code, fields = {}) => ({
  code,
  args: null,
  stdin: '',
  files: {},
  strictness: 'standard',
  extraModules: [],
  session: null,
  keepSession: false,
  timeoutMs: 60_000,
  memoryLimitMb: LIMIT_MB,
  reportsProgress: false,
  ...fields,
});
const started = [];
async function startHost(threads, warmUpMs) {
  const host = new SandboxProcess({
    clock,
    graceMs: 10_000,
    hostScript: fileURLToPath(dist('sandbox-host.js')),
    settings: {
      interpreter,
      threadScript: fileURLToPath(dist('wasi/sandbox-thread.js')),
      threads,
      programs: 0,
      outputCap: 1 << 20,
      memoryLimitMb: LIMIT_MB,
      memoryBudgetMb: threads * LIMIT_MB,
      warmUpMs,
      warmUpFirst: true,
    },
  });
  started.push(host);
  await host.start();
  return host;
}
let ids = 0;
async function run(host, code, fields) {
  const began = performance.now();
  const reply = await host.run(`b${++ids}`, request(code, fields));
  return { ms: performance.now() - began, reply };
}
const rssKb = (pid) => Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))[1]);

const lines = [];
const line = (name, ratio, goal, detail, atLeast = false) => {
  const good = goal === undefined || (atLeast ? ratio >= goal : ratio <= goal);
  lines.push({ name, ratio, goal, good, detail });
  const shown = goal === undefined ? '' : `goal ${atLeast ? '>=' : '<='} ${goal}`;
  console.log(`${good ? '  ' : '! '}${name.padEnd(52)} ${ratio.toFixed(3).padStart(8)}  ${shown.padEnd(14)} ${detail}`);
};
const ms = (value) => `${value.toFixed(1)} ms`;

console.log(`${cpus()[0].model}, ${availableParallelism()} cores, Node ${process.version}, ${PYTHON}`);
console.log(`${interpreter.wasmPath}\n`);
const host = await startHost(THREADS, 20_000);
for (let i = 0; i < 60; i++) for (const code of [PRINT, IMPORTS]) await run(host, code);

// Interleaved, so that a change of the machine's load hits both sides.
const samples = { nativePrint: [], nativeImports: [], idlePrint: [], idleImports: [] };
for (let i = 0; i < rounds; i++) {
  samples.nativePrint.push((await native(PRINT)).ms);
  await pause(15);
  samples.idlePrint.push((await run(host, PRINT)).ms);
  samples.nativeImports.push((await native(IMPORTS)).ms);
  await pause(15);
  samples.idleImports.push((await run(host, IMPORTS)).ms);
}
const [basePrint, baseImports] = [p50(samples.nativePrint), p50(samples.nativeImports)];
const against = (base, list) => `${ms(p50(list))} to ${ms(base)}; p95 ${ms(quantile(list, 0.95))}`;
line(
  'print(1), idle worker, restored instance',
  p50(samples.idlePrint) / basePrint,
  0.1,
  against(basePrint, samples.idlePrint),
);
line(
  'five imports, idle worker',
  p50(samples.idleImports) / baseImports,
  0.2,
  against(baseImports, samples.idleImports),
);

/**
 * Last, and against the spawns of the beginning: with an interpreter inside, this process takes half as long again for a
 * spawn and flatter the ratios. Spawns between the runs stay, for they empty the caches.
 */
async function inOneProcess() {
  const { boot, code, minPages, preopens } = loadInterpreter(interpreter);
  const maxPages = LIMIT_MB * 16;
  const heapBytes = 3 << 20;
  const options = { clock, preopens, maxPages, heapBytes };
  const snapshot = takeSnapshot(boot, minPages, options);
  const output = new CapturedOutput(1 << 20);
  let guest = null;
  const once = (program) => {
    output.reset();
    guest = restore(code, snapshot, { clock, output, preopens, maxPages, reuse: guest });
    guest.run(encodeRequest(request(program)));
  };
  await warmUp(clock, { maxMs: 20_000, pauseMs: 0 }, once);
  const took = { print: [], imports: [] };
  for (let i = 0; i < rounds; i++) {
    for (const [name, program] of [
      ['print', PRINT],
      ['imports', IMPORTS],
    ]) {
      await pause(5);
      const began = performance.now();
      once(program);
      took[name].push(performance.now() - began);
    }
    if (i % 3 === 0) {
      await native(PRINT);
      await native(IMPORTS);
    }
  }
  line('print(1), restored on demand', p50(took.print) / basePrint, 0.3, against(basePrint, took.print));
  line('five imports, restored on demand', p50(took.imports) / baseImports, 0.2, against(baseImports, took.imports));
  await oneThread({ code, snapshot, preopens });
}

/** Without the way through service and host: a thread of this process, resting for 25 ms after a run of `pass`. */
async function oneThread(interpreterParts) {
  const pool = new ThreadPool({
    ...interpreterParts,
    clock,
    threadScript: fileURLToPath(dist('wasi/sandbox-thread.js')),
    threads: 1,
    programs: 0,
    outputCap: 1 << 20,
    defaultMemoryMb: LIMIT_MB,
    memoryBudgetMb: LIMIT_MB,
  });
  await pool.start();
  const took = [];
  for (let i = 0; i < rounds; i++) {
    // Its two threads take turns.
    for (const name of ['a', 'b']) await pool.run(name, request('pass'));
    await pause(25);
    const began = performance.now();
    await pool.run('print', request(PRINT));
    took.push(performance.now() - began);
    await native(PRINT);
  }
  await pool.close();
  line('print(1), restored instance, thread without host', p50(took) / basePrint, undefined, against(basePrint, took));
}

async function perSecond(count, one) {
  let next = 0;
  const began = performance.now();
  await Promise.all(
    Array.from({ length: THREADS }, async () => {
      while (next++ < count) await one();
    }),
  );
  return (count / (performance.now() - began)) * 1_000;
}
const rates = { native: [], sandbox: [] };
for (let i = 0; i < 3; i++) {
  rates.native.push(await perSecond(quick ? 30 : 80, () => native(PRINT)));
  rates.sandbox.push(await perSecond(quick ? 150 : 500, () => run(host, PRINT)));
}
line(
  `throughput, ${THREADS} threads`,
  p50(rates.sandbox) / p50(rates.native),
  5,
  `${p50(rates.sandbox).toFixed(0)} to ${p50(rates.native).toFixed(0)} runs/s`,
  true,
);

const kernels = {};
for (const [name, kernel] of Object.entries(KERNELS)) {
  const seconds = (out) => Number(/TOOK (\S+)/.exec(out)[1]);
  const [ours, theirs] = [[], []];
  await run(host, timed(kernel));
  for (let i = 0; i < (quick ? 3 : 7); i++) {
    theirs.push(seconds((await native(timed(kernel))).out));
    ours.push(seconds((await run(host, timed(kernel))).reply.stdout));
  }
  kernels[name] = p50(ours) / p50(theirs);
}
const geomean = Math.exp(
  Object.values(kernels).reduce((sum, each) => sum + Math.log(each), 0) / Object.keys(kernels).length,
);
line(
  'compute, six kernels, geomean',
  geomean,
  PYTHON_WASI_WASM_PATH ? 4.5 : 15, // who brings another brings an optimised one
  Object.entries(kernels)
    .map(([k, r]) => `${k} ${r.toFixed(1)}`)
    .join(', '),
);

// From the deadline to the end of the run. A run that comes right after may have to wait for a new thread besides.
const [overshoot, toAnswer] = [[], []];
for (let i = 0; i < (quick ? 30 : 200); i++) {
  const timeoutMs = 60;
  const { ms: took, reply } = await run(host, i % 2 ? 'while True: pass' : 'import time\ntime.sleep(9)', { timeoutMs });
  if (reply.status !== 'timeout') throw new Error(`a run that never ends ended as ${reply.status}`);
  overshoot.push(reply.usage.wallMs - timeoutMs);
  toAnswer.push(took - timeoutMs);
}
line(
  `overshoot of ${overshoot.length} kills, p99 in ms`,
  quantile(overshoot, 0.99),
  100,
  `median ${ms(p50(overshoot))}; with the wait for a thread and the way back p99 ${ms(quantile(toAnswer, 0.99))}`,
);

// Many threads, for a host alone varies by 30 MB: what the optimiser's threads leave behind.
const [few, many] = [await startHost(1, 0), await startHost(MANY + 1, 0)];
for (const each of [few, many]) for (let i = 0; i < 24; i++) await run(each, PRINT);
await pause(500);
line(
  'RSS per idle worker thread in MB',
  (rssKb(many.pid) - rssKb(few.pid)) / MANY / 1_024,
  25,
  `host with 2 and ${MANY + 2} threads: ${Math.round(rssKb(few.pid) / 1024)} and ${Math.round(rssKb(many.pid) / 1024)} MB`,
);

await inOneProcess();

const { TOOLFLEET_URL: url, TOOLFLEET_API_KEY: key } = process.env;
if (url && key) {
  let calls = 0;
  const overHttp = async () => {
    const began = performance.now();
    const answer = await fetch(`${url}/api/v1/tools/execute_python/execute`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', authorization: `Bearer ${key}` },
      // Another program each time: a cached answer would flatter.
      body: JSON.stringify({ arguments: { code: `print(1) # ${process.pid} ${++calls}` } }),
    });
    const body = await answer.json();
    if (!body.success) throw new Error(`HTTP ${answer.status}: ${JSON.stringify(body)}`);
    return performance.now() - began;
  };
  const took = [];
  for (let i = 0; i < rounds; i++) {
    await pause(15);
    took.push(await overHttp());
  }
  line('end to end over HTTP', p50(took) / basePrint, 0.4, against(basePrint, took));
  // The first calls of a fleet run code that V8 has not optimised yet. Then both sides paced alike, in turns of a few.
  for (let i = 0; i < (quick ? 400 : 2_000); i++) await overHttp();
  for (const [pacing, pauseMs] of Object.entries({ 'after a pause of 15 ms': 15, 'back to back': 0 })) {
    const sides = { http: [], native: [] };
    for (let i = 0; i < rounds; i += 10) {
      for (const [side, one] of [
        ['native', async () => (await native(PRINT)).ms],
        ['http', overHttp],
      ]) {
        for (let j = 0; j < 10; j++) {
          if (pauseMs > 0) await pause(pauseMs);
          sides[side].push(await one());
        }
      }
    }
    const base = p50(sides.native);
    line(`the same, warm fleet, ${pacing}`, p50(sides.http) / base, undefined, against(base, sides.http));
  }
} else {
  console.log('  end to end over HTTP: not measured (needs TOOLFLEET_URL and TOOLFLEET_API_KEY of a running fleet)');
}

for (const each of started) each.kill();
await Promise.all(started.map((each) => each.ended));
if (process.argv.includes('--save')) {
  const folder = fileURLToPath(new URL('results/', import.meta.url));
  mkdirSync(folder, { recursive: true });
  const file = `${folder}sandbox-${new Date().toISOString().slice(0, 10)}.json`;
  const machine = { cpu: cpus()[0].model, cores: availableParallelism(), node: process.version };
  writeFileSync(file, `${JSON.stringify({ machine, lines }, null, 2)}\n`);
  console.log(`\nsaved ${file}`);
}
process.exit(lines.every((each) => each.good) ? 0 : 1);
