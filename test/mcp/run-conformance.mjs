/**
 * `npm run test:mcp`: the official conformance suite, pinned by package.json, against the gateway's MCP endpoint and against the
 * fleet's client, for both revisions, on loopback only. Exit code 1 when a scenario fails, whether scored or not (extensions
 * count too), or when the suite ends without a summary.
 */
import { fork, spawn } from 'node:child_process';
import { globSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { turnstile } from './turnstile.mjs';

const here = dirname(fileURLToPath(import.meta.url));
const root = join(here, '../..');
const suite = join(root, 'node_modules/@modelcontextprotocol/conformance/dist/index.js');
const client = `${process.execPath} ${join(here, 'turnstile.mjs')}`;
/** Includes the wait for a slot (`turnstile.mjs`): on a busy machine the suite's own 30 s are not enough. */
const SCENARIO_TIMEOUT_MS = '300000';
const REVISIONS = ['2025-11-25', '2026-07-28'];

/** Runs the suite. @returns its output, and its reports of failed checks */
function run(args) {
  const results = mkdtempSync(join(tmpdir(), 'mcp-conformance-'));
  return new Promise((resolve) => {
    const child = spawn(process.execPath, [suite, ...args, '--timeout', SCENARIO_TIMEOUT_MS, '-o', results], {
      cwd: root,
      env: { ...process.env, MCP_TURNSTILE_PORT: String(turns.port) },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    let output = '';
    child.stdout.on('data', (chunk) => (output += chunk));
    child.stderr.on('data', (chunk) => (output += chunk));
    child.on('close', () => {
      resolve({ output, faults: readFailures(results) });
      rmSync(results, { recursive: true });
    });
  });
}

/** Failed checks, each with the end of the client's output in that scenario. */
function readFailures(results) {
  return globSync(join(results, '**/checks.json')).flatMap((file) => {
    const failed = JSON.parse(readFileSync(file, 'utf8')).filter(({ status }) => status === 'FAILURE');
    const said = globSync(join(dirname(file), 'std*.txt')).map((text) => readFileSync(text, 'utf8').slice(-2_000));
    return failed.length > 0 ? [[file.slice(results.length + 1), JSON.stringify(failed), ...said].join('\n')] : [];
  });
}

function report(name, { output, faults }) {
  const lines = output.split('\n').filter((line) => /^[✓✗] \S+: \d+ passed, \d+ failed/.test(line));
  const total = /^Total: .*$/m.exec(output)?.[0] ?? 'no summary';
  const failed = lines.filter((line) => line.startsWith('✗')).map((line) => line.slice(2, line.indexOf(': ')));
  const bad = failed.length > 0 || lines.length === 0;
  console.log(
    `${bad ? 'FAILED' : 'passed'}  ${name}: ${lines.length - failed.length} of ${lines.length} scenarios. ${total}`,
  );
  for (const scenario of failed) console.log(`          failed: ${scenario}`);
  if (bad) console.log([...faults, ...output.split('\n').slice(-10)].join('\n'));
  return !bad;
}

const turns = await turnstile();
const server = fork(join(here, 'conformance-server.mjs'), { stdio: ['ignore', 'pipe', 'inherit', 'ipc'] });
const port = await new Promise((resolve, reject) => {
  server.stdout.once('data', (chunk) => resolve(JSON.parse(String(chunk)).port));
  server.once('exit', () => reject(new Error('the server under test did not start')));
});
let good = true;
try {
  for (const revision of REVISIONS) {
    const args = ['server', '--url', `http://localhost:${port}/mcp`, '--requirements', revision];
    good = report(`server ${revision}`, await run(args)) && good;
  }
  for (const revision of REVISIONS) {
    good = report(`client ${revision}`, await run(['client', '--command', client, '--requirements', revision])) && good;
  }
} finally {
  server.kill();
  turns.close();
}
process.exit(good ? 0 : 1);
