/**
 * Runs modules of CPython's own test suite inside the sandbox: an interpreter that was snapshotted, edited and restored
 * must still be CPython. Tests that upstream skips on WASI are skipped by upstream's own marks; nothing else may fail.
 *
 *   npm run test:cpython [-- test_json test_re] [-- --any-version]      after `npm run build`
 *
 * The tests are not part of this repository. They are taken from CPYTHON_TESTS (the folder Lib/test of a source tree of
 * the guest's version), else from the library folder of the interpreter (where tools/build-python puts them), from an
 * installed Python of that version, or from the packages of Debian or Ubuntu (tools/cpython-suite.mjs); without them the
 * run is skipped, visibly. `--any-version` takes the nearest version there is:
 * its tests of what changed between the two fail, so it tells something only to a reader of the failures.
 */
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { fetchSuite, offeredVersions } from './cpython-suite.mjs';

const root = new URL('../', import.meta.url);
const dist = (path) => new URL(`libs/kits/wasi-python/dist/${path}`, root);
const skip = (why) => {
  console.log(`SKIPPED test:cpython: ${why}`);
  process.exit(0);
};
if (!existsSync(dist('sandbox-host.js'))) {
  console.error('libs/kits/wasi-python is not built: npm run build');
  process.exit(2);
}
const { SandboxProcess } = await import(dist('sandbox-process.js'));
const { namedInterpreter } = await import(dist('wasi/interpreter.js'));
const { SystemClock } = await import(new URL('libs/kits/base/dist/index.js', root));

const flags = process.argv.slice(2);
const anyVersion = flags.includes('--any-version');
const chosen = flags.filter((flag) => !flag.startsWith('-'));
const { PYTHON_WASI_WASM_PATH, PYTHON_WASI_STDLIB_PATH } = process.env;
const MINUTES = 60_000;

const host = new SandboxProcess({
  clock: new SystemClock(),
  graceMs: 10_000,
  hostScript: fileURLToPath(dist('sandbox-host.js')),
  settings: {
    interpreter: {
      ...namedInterpreter(PYTHON_WASI_WASM_PATH, PYTHON_WASI_STDLIB_PATH),
      tableLimit: 10_000,
    },
    threadScript: fileURLToPath(dist('wasi/sandbox-thread.js')),
    threads: 1,
    programs: 0,
    outputCap: 1 << 20,
    memoryLimitMb: 512,
    memoryBudgetMb: 512,
    warmUpMs: 20_000,
    warmUpFirst: true,
  },
});
await host.start();
const guest = host.version.split('.').slice(0, 2).join('.');

/** `3.12` of a folder of tests: from the headers of its source tree, else from the name of its parent folder. */
function versionOf(folder) {
  const header = join(folder, '../../Include/patchlevel.h');
  if (existsSync(header)) {
    const text = readFileSync(header, 'utf8');
    const part = (name) => new RegExp(`${name}\\s+(\\d+)`).exec(text)?.[1];
    return `${part('PY_MAJOR_VERSION')}.${part('PY_MINOR_VERSION')}`;
  }
  return /python(\d+\.\d+)$/.exec(dirname(folder))?.[1];
}
const isSuite = (place) => existsSync(join(place, 'test_json')) && existsSync(join(place, 'support'));
/** Folders with tests that are on this machine, those made with the interpreter first. */
const present = (version) => [
  ...(PYTHON_WASI_STDLIB_PATH ? [join(PYTHON_WASI_STDLIB_PATH, `../tests/python${version}/test`)] : []),
  `/usr/lib/python${version}/test`,
  `/usr/local/lib/python${version}/test`,
];

/** The folder with the tests, if there is one. */
function findSuite() {
  if (process.env.CPYTHON_TESTS) return [process.env.CPYTHON_TESTS].find(isSuite);
  const own = present(guest).find(isSuite) ?? fetchSuite(guest);
  if (own || !anyVersion) return own;
  const distance = (version) => Math.abs(Number(version.split('.')[1]) - Number(guest.split('.')[1]));
  const [nearest] = offeredVersions().toSorted((a, b) => distance(a) - distance(b));
  return nearest && fetchSuite(nearest);
}
const folder = findSuite();
if (!folder) {
  host.kill();
  const offered = offeredVersions().join(', ') || 'none';
  skip(
    `no tests of Python ${guest}: not in CPYTHON_TESTS, not installed, and the package lists of this system offer ${offered}. ` +
      'Set CPYTHON_TESTS to Lib/test of its source tree, or see --any-version',
  );
}
if (versionOf(folder) !== guest && !anyVersion) {
  host.kill();
  skip(
    `${folder} is of Python ${versionOf(folder) ?? '(unknown)'}, the guest is ${guest}; --any-version runs it anyway`,
  );
}

/** Files below a folder as the `files` of a run, by their path below `/data`. */
function filesOf(path) {
  if (statSync(path).isFile()) return { [`test/${relative(folder, path)}`]: { base64: readFileSync(path, 'base64') } };
  return Object.assign(
    {},
    ...readdirSync(path)
      .filter((name) => name !== '__pycache__')
      .map((name) => filesOf(join(path, name))),
  );
}
const shared = Object.assign(
  filesOf(join(folder, 'support')),
  ...readdirSync(folder)
    .filter((name) => name.endsWith('.py') && !name.startsWith('test_'))
    .map((name) => filesOf(join(folder, name))),
);
/** Runs a module as upstream's own runner does: through its `test_main`, where it has one that sets things up. */
const program = `
import importlib, io, sys, unittest
sys.path.insert(0, "/data")
from test import support
support.verbose = 0
outcomes = []
def run(suite): outcomes.append(unittest.TextTestRunner(stream=io.StringIO(), verbosity=0).run(suite))
module = importlib.import_module("test." + args)
if hasattr(module, "test_main") and hasattr(support, "_run_suite"):
  support._run_suite = run
  module.test_main()
else: run(unittest.defaultTestLoader.loadTestsFromModule(module))
result = {
  "run": sum(each.testsRun for each in outcomes),
  "skipped": [reason for each in outcomes for _, reason in each.skipped],
  "bad": [[str(test), text[-3000:]] for each in outcomes for test, text in each.failures + each.errors],
}`;

const listed = readFileSync(new URL('cpython-tests.txt', import.meta.url), 'utf8')
  .split('\n')
  .map((line) => line.replace(/#.*/, '').trim())
  .filter(Boolean)
  .map((line) => line.split(/\s+/));
let failed = 0;
let passed = 0;
let tests = 0;
let wrong = 0;
for (const [name, ...data] of listed) {
  if (chosen.length > 0 && !chosen.includes(name)) continue;
  const own = [`${name}.py`, name, ...data].map((path) => join(folder, path)).filter((path) => existsSync(path));
  const began = performance.now();
  const reply = await host.run(name, {
    code: program,
    args: name,
    stdin: '',
    files: Object.assign({}, shared, ...own.map(filesOf)),
    strictness: 'standard',
    extraModules: [],
    session: null,
    keepSession: false,
    timeoutMs: 5 * MINUTES,
    memoryLimitMb: 512,
    reportsProgress: false,
  });
  const seconds = ((performance.now() - began) / 1_000).toFixed(1);
  const { run = 0, skipped = [], bad = [] } = reply.value ?? {};
  tests += run;
  wrong += bad.length;
  const good = reply.status === 'ok' && bad.length === 0 && run > 0;
  if (good) passed += 1;
  else failed += 1;
  console.log(
    `${good ? 'ok  ' : 'FAIL'} ${name.padEnd(22)} ${run} tests, ${skipped.length} skipped by upstream, ${seconds} s`,
  );
  if (reply.status !== 'ok')
    console.log(`     ${reply.status}: ${reply.error?.message}\n${reply.error?.traceback ?? ''}`);
  for (const [test, text] of bad) console.log(`     ${test}\n${text.replace(/^/gm, '       ')}`);
}
host.kill();
console.log(
  `\n${passed} of ${passed + failed} modules of Python ${versionOf(folder)} pass in the sandbox (Python ${host.version}); ${tests} tests run, ${wrong} failed`,
);
process.exit(failed === 0 ? 0 : 1);
