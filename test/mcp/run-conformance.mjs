/**
 * `npm run test:mcp`: the official conformance suite, pinned by package.json, against the gateway's MCP door and against the
 * fleet's client, for both revisions. Everything on loopback. Exit code 1 when a scored scenario fails, when a tasks scenario
 * fails (unscored, but ours to pass), or when the suite ends without a summary.
 */
import { fork, spawn } from 'node:child_process';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const here = dirname(fileURLToPath(import.meta.url));
const root = join(here, '../..');
const suite = join(root, 'node_modules/@modelcontextprotocol/conformance/dist/index.js');
const client = `${process.execPath} ${join(here, 'conformance-client.mjs')}`;
/** The suite runs its client scenarios side by side; on a busy machine its own 30 s are not enough. */
const SCENARIO_TIMEOUT_MS = '120000';
const REVISIONS = ['2025-11-25', '2026-07-28'];

/** Unscored scenarios we do not offer: extensions of the login of a person or of other credentials than ours. */
const NOT_OFFERED = new Set([
  'auth/client-credentials-jwt',
  'auth/enterprise-managed-authorization',
  'auth/dpop',
  'auth/dpop-nonce',
  'auth/wif-jwt-bearer',
]);

function run(args) {
  return new Promise((resolve) => {
    const child = spawn(process.execPath, [suite, ...args, '--timeout', SCENARIO_TIMEOUT_MS], {
      cwd: root,
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    let output = '';
    child.stdout.on('data', (chunk) => (output += chunk));
    child.stderr.on('data', (chunk) => (output += chunk));
    child.on('close', (code) => resolve({ code, output }));
  });
}

function judge(name, { output }) {
  const lines = output.split('\n').filter((line) => /^[✓✗] \S+: \d+ passed, \d+ failed/.test(line));
  const total = /^Total: .*$/m.exec(output)?.[0] ?? 'no summary';
  const failed = lines.filter((line) => line.startsWith('✗')).map((line) => line.slice(2, line.indexOf(': ')));
  const wrong = failed.filter((scenario) => !NOT_OFFERED.has(scenario));
  const bad = wrong.length > 0 || lines.length === 0;
  console.log(
    `${bad ? 'FAILED' : 'passed'}  ${name}: ${lines.length - failed.length} of ${lines.length} scenarios. ${total}`,
  );
  for (const scenario of failed)
    console.log(`          ${NOT_OFFERED.has(scenario) ? 'not offered' : 'failed'}: ${scenario}`);
  if (bad) console.log(output.split('\n').slice(-80).join('\n'));
  return !bad;
}

const server = fork(join(here, 'conformance-server.mjs'), { stdio: ['ignore', 'pipe', 'inherit', 'ipc'] });
const port = await new Promise((resolve, reject) => {
  server.stdout.once('data', (chunk) => resolve(JSON.parse(String(chunk)).port));
  server.once('exit', () => reject(new Error('the server under test did not start')));
});
let good = true;
try {
  for (const revision of REVISIONS) {
    const args = ['server', '--url', `http://localhost:${port}/mcp`, '--requirements', revision];
    good = judge(`server ${revision}`, await run(args)) && good;
  }
  for (const revision of REVISIONS) {
    good = judge(`client ${revision}`, await run(['client', '--command', client, '--requirements', revision])) && good;
  }
} finally {
  server.kill();
}
process.exit(good ? 0 : 1);
