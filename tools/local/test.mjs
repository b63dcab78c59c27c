/**
 * `npm test`: everything that needs NATS and Redis only. Arguments select spec files or are options of vitest, `TEST_PROJECTS` selects
 * other projects of vitest.config.ts. The last line is
 * `N passed, N failed, N skipped`.
 */
import { existsSync, mkdirSync, readFileSync, rmSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { bundleFleet } from '../bundle.mjs';
import { brokerPrograms } from './broker-programs.mjs';
import { pythonPackages } from './python-packages.mjs';
import { runShown } from './run-program.mjs';
import { complain, say } from './steps.mjs';

const SLOWEST_SHOWN = 10;
/** Lines of each error. */
const LINES_SHOWN = 30;
const ROOT = dirname(dirname(dirname(fileURLToPath(import.meta.url))));
const stateDir = join(ROOT, '.toolfleet');
mkdirSync(stateDir, { recursive: true });
const env = { ...process.env };
try {
  env.PATH = (await brokerPrograms(ROOT, say)).path;
} catch (error) {
  complain(error.message);
  finish({ passed: 0, failed: 1, skipped: 0 });
}

// Format, lint and types of the specs are tests like the others: each counts as one.
const checks = [
  ['format', ['node_modules/oxfmt/bin/oxfmt', '--check', '.']],
  ['lint', ['node_modules/oxlint/bin/oxlint', '-c', 'oxlint.json', '--deny-warnings']],
  ['types of specs', ['node_modules/typescript/bin/tsc', '-p', 'tsconfig.spec.json']],
];
const totals = { passed: 0, failed: 0, skipped: 0 };
/** Names of failed tests with the first lines of their errors, to be shown again at the end. */
const failures = [];
const selection = process.argv.slice(2);
for (const [name, args] of selection.length > 0 ? [] : checks) {
  const status = await runShown(args, { cwd: ROOT, env });
  process.stdout.write(`toolfleet: ${name}: ${status === 0 ? 'passed' : 'FAILED'}\n`);
  if (status !== 0) failures.push({ name, messages: [] });
  totals[status === 0 ? 'passed' : 'failed'] += 1;
}
// Whole fleets start hundreds of services, faster from bundles than from modules.
if (selection.length === 0 || selection.some((path) => path.startsWith('test'))) {
  env.TEST_FLEET_SERVICES = join(stateDir, 'services');
  await bundleFleet(env.TEST_FLEET_SERVICES);
}
if (selection.length === 0 || selection.some((path) => path.includes('python')))
  Object.assign(env, await pythonPackages(ROOT));
const vitest = join(ROOT, 'node_modules/vitest/vitest.mjs');
const projects = (process.env.TEST_PROJECTS ?? 'unit,e2e,integration').split(',');
const [report, durationsFile] = ['test-report.json', 'test-durations.json'].map((name) => join(stateDir, name));
for (const file of [report, durationsFile]) rmSync(file, { force: true });
const args = [
  ...['run', '--passWithNoTests', ...projects.flatMap((project) => ['--project', project])],
  ...['--reporter=dot', '--reporter=json', `--outputFile.json=${report}`],
  `--reporter=${join(ROOT, 'tools/local/durations-reporter.mjs')}`,
];
const exitCode = await runShown([vitest, ...args, ...selection], {
  cwd: ROOT,
  env: { ...env, TEST_DURATIONS_FILE: durationsFile },
});
const result = readReport();
totals.passed += result.passed;
totals.skipped += result.skipped;
// A runner that failed without a failed test (a suite that did not load, an unhandled error) is still a failure.
totals.failed += exitCode !== 0 ? Math.max(1, result.failed) : result.failed;
if (selection.length === 0) sayWhatWasSlow();
for (const { name, messages } of failures) {
  process.stdout.write(`toolfleet: FAILED ${name}\n`);
  for (const line of messages.flatMap(firstLines)) process.stdout.write(`    ${line}\n`);
}
finish(totals);

/** The files that took longest: where to look when the whole run is to get faster. */
function sayWhatWasSlow() {
  if (!existsSync(durationsFile)) return;
  const durations = JSON.parse(readFileSync(durationsFile, 'utf8'));
  const slowest = durations.toSorted((a, b) => b.seconds - a.seconds).slice(0, SLOWEST_SHOWN);
  say(`the slowest ${slowest.length} of ${durations.length} files:`);
  for (const { file, seconds } of slowest) say(`${seconds.toFixed(1).padStart(7)} s  ${relative(ROOT, file)}`);
}

function readReport() {
  try {
    const json = JSON.parse(readFileSync(report, 'utf8'));
    const brokenSuites = json.testResults.filter(
      (suite) => suite.status === 'failed' && suite.assertionResults.length === 0,
    );
    for (const suite of json.testResults)
      for (const test of suite.assertionResults.filter(({ status }) => status === 'failed'))
        failures.push({ name: `${relative(ROOT, suite.name)}: ${test.fullName}`, messages: test.failureMessages });
    for (const { name, message } of brokenSuites) failures.push({ name: relative(ROOT, name), messages: [message] });
    return {
      passed: json.numPassedTests,
      failed: json.numFailedTests + brokenSuites.length,
      skipped: json.numPendingTests + json.numTodoTests,
    };
  } catch {
    return { passed: 0, failed: 0, skipped: 0 };
  }
}

/** The message of an error with its values, without the stack. */
function firstLines(message) {
  const lines = message.split('\n').filter((line) => line.trim() !== '');
  const stack = lines.findIndex((line) => /^\s+at /.test(line));
  return lines.slice(0, stack < 0 ? LINES_SHOWN : Math.min(stack + 1, LINES_SHOWN));
}

function finish({ passed, failed, skipped }) {
  process.stdout.write(`${passed} passed, ${failed} failed, ${skipped} skipped\n`);
  // Nothing found is a failure; tests that lack a program are skips that show.
  process.exit(failed === 0 && passed + skipped > 0 ? 0 : 1);
}
