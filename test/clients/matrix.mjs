/** Runs every client against a fleet and fills the table. */
import { fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { setTimeout as sleep } from 'node:timers/promises';
import { RUNS } from './checks.mjs';
import { startTap } from './tap.mjs';

const PROGRAM = fileURLToPath(new URL('run-client.mjs', import.meta.url));
/** Long enough for commands that start a program for each call, on a busy machine. */
const RUN_WITHIN_MS = 400_000;
/** After the abort, a call of a client that cancels has ended in the fleet within this time. */
const CANCELLED_WITHIN_MS = 8_000;
const POLL_MS = 200;

/**
 * The row of one client.
 * @param {string} client name of its file
 * @param {{url: string, api_key: string}} fleet
 * @returns {Promise<{client: string, revision: string, isAgent: boolean, cells: Record<string, {outcome: string, evidence: string}>}>}
 */
export async function runClient(client, fleet) {
  const row = { client, revision: '', isAgent: false, cells: {} };
  for (const run of RUNS) {
    const observed = await observe(client, run, fleet);
    row.revision ||= revisionIn(observed.exchanges);
    row.isAgent ||= observed.isAgent ?? false;
    Object.assign(row.cells, run.judge(observed));
  }
  return row;
}

/** One run in a separate process, behind a tap. */
async function observe(client, { steps, key, cancels }, fleet) {
  const tap = await startTap(fleet.url);
  const child = fork(PROGRAM, { stdio: ['ignore', 'pipe', 'pipe', 'ipc'], env: childEnvironment() });
  let [printed, progress] = ['', 0];
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk) => (printed += chunk));
  const { promise, resolve } = Promise.withResolvers();
  child.on('message', (message) => (message.progress === undefined ? resolve(message) : (progress += 1)));
  child.on('exit', (code) => resolve({ error: `the process ended with ${code}: ${printed.slice(-2_000)}` }));
  const timer = setTimeout(
    () => resolve({ error: `no outcome within ${RUN_WITHIN_MS} ms: ${printed.slice(-2_000)}` }),
    RUN_WITHIN_MS,
  );
  try {
    child.send({ client, url: `${tap.url}/mcp`, key: key ?? fleet.api_key, steps });
    const ended = cancels ? await cancelled(child, cancels, tap.exchanges, fleet, promise) : undefined;
    // A client that ignores the cancellation would go on until the tool has ended.
    const outcome = cancels ? {} : await promise;
    return { tools: [], shown: [], ...outcome, ended, printed, progress, exchanges: tap.exchanges };
  } finally {
    clearTimeout(timer);
    child.kill('SIGKILL');
    await tap.stop();
  }
}

/** Cancels the run once the tool runs. @returns the finished call from the fleet; undefined if it goes on */
async function cancelled(child, tool, exchanges, fleet, outcome) {
  const isRunning = () => exchanges.some(({ message }) => message?.method === 'tools/call');
  let isOver = false;
  void outcome.then(() => (isOver = true));
  while (!isRunning() && !isOver) await sleep(POLL_MS);
  const known = new Set((await finishedCalls(tool, fleet)).map(({ call_id }) => call_id));
  await sleep(1_000);
  child.send('abort');
  for (let waited = 0; waited < CANCELLED_WITHIN_MS; waited += POLL_MS) {
    await sleep(POLL_MS);
    const ended = (await finishedCalls(tool, fleet)).find(({ call_id }) => !known.has(call_id));
    if (ended) return ended;
  }
  return undefined;
}

async function finishedCalls(tool, { url, api_key: key }) {
  const response = await fetch(`${url}/api/v1/calls?limit=50`, { headers: { authorization: `Bearer ${key}` } });
  return (await response.json()).calls.filter((call) => call.tool === tool);
}

/** The protocol revision that the client and the gateway agreed on. */
function revisionIn(exchanges) {
  const opened = exchanges.find(({ message, status }) => message?.method === 'initialize' && status === 200);
  if (opened) return /"protocolVersion":"([\d-]+)"/.exec(opened.answer)?.[1] ?? '';
  const stateless = exchanges.find(
    ({ message }) => message?.params?._meta?.['io.modelcontextprotocol/protocolVersion'],
  );
  return stateless?.message.params._meta['io.modelcontextprotocol/protocolVersion'] ?? '';
}

/** An environment without the user's accounts: a client must not find keys of model providers or sign-ins. */
function childEnvironment() {
  const { PATH, HOME, TMPDIR, TEST_PYTHON } = process.env;
  return {
    PATH,
    HOME,
    TMPDIR,
    TEST_PYTHON,
    NO_COLOR: '1',
    CI: '1',
    GENKIT_ENV: 'prod',
    MASTRA_TELEMETRY_DISABLED: '1',
  };
}
