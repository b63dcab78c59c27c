/**
 * Function invocations per call, by layer and package, of all processes of a fleet, counted by V8's precise coverage. Worker threads are
 * counted apart.
 *
 * Timers run by time and not by call, so a machine that takes longer for a call would count more. Calls therefore arrive at a fixed pace, in
 * windows of equal length. Of each function the median of the windows counts, so that rare work, such as a refresh of a source, does not,
 * and the work of the fleet without calls in the same time is subtracted.
 */
import { Redis } from 'ioredis';
import { once } from 'node:events';
import { readdirSync } from 'node:fs';
import { connect } from 'node:net';
import { basename, join, relative } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

/** A function with fewer invocations per call belongs to a timer or to a rare branch, and is not counted as distinct. */
const IN_CALL = 0.5;

/** Layers of a call by package: the first that fits. `node` rows are files of Node itself. */
const LAYERS = [
  ['records', /^(npm (kysely|better-sqlite3)|apps\/records|libs\/(records|database))$/],
  [
    'HTTP in',
    /^(npm (fastify|@fastify\/\S+|avvio|find-my-way|@nestjs\/\S+|light-my-request|rxjs|class-\S+|reflect-metadata|fast-\S+|secure-json-parse|process-warning|pino)|apps\/gateway)$/,
  ],
  ['HTTP out', /^(npm undici|libs\/kits\/egress)$/],
  ['MCP', /^(npm (@modelcontextprotocol\/\S+|zod)|apps\/mcp-executor|libs\/mcp)$/],
  [
    'other executors',
    /^(apps\/(builtin-executor|openapi-executor|python-sandbox)|libs\/(builtin-tools|programs|kits\/(openapi|wasi-python)))$/,
  ],
  ['transport', /^(npm nats|libs\/transport)$/],
  ['engine', /^libs\/(engine|engine-adapters|service)$/],
  [
    'Redis',
    /^(npm (ioredis|@ioredis\/\S+|redis-\S+|denque|standard-as-callback|cluster-key-slot|bullmq|msgpackr)|libs\/(journal|queue))$/,
  ],
  ['JSON and shapes', /^libs\/(contracts|kits\/base)$/],
  ['telemetry', /^(npm (prom-client|@opentelemetry\/\S+|tdigest|sonic-boom)|libs\/telemetry)$/],
  [
    'policy, schema, access',
    /^(npm (lru-cache|ajv|opossum)|libs\/(policy|access|catalog|results|rules|kits\/(rego|bounded-schema)))$|compiled/,
  ],
  ['deadlines, breakers, clock', /^libs\/resilience$/],
  ['budget', /^apps\/budget$/],
  [
    'Node: timers, ticks, async context',
    /^node (timers|internal\/(timers|process\/\S+|async_\S+|fixed_queue|linkedlist|priority_queue|async_context_frame|async_local_storage\/\S+))$/,
  ],
  ['Node: events and abort signals', /^node internal\/(event_target|abort_controller|events\/\S+)$/],
  [
    'Node: HTTP, streams, net, events',
    /^node (_http\S*|_stream\S*|net|events|stream|http|internal\/(streams\/\S+|http|stream_base_commons|net|dtrace|url))$/,
  ],
  ['Node: validators, errors, buffers', /^node /],
];

/** Counters that are invocations of one function: package, name. */
const COUNTERS = {
  timers: ['node internal/timers', /^Timeout$/],
  ticks: ['node internal/process/task_queues', /^nextTick$/],
  immediates: ['node internal/timers', /^Immediate$/],
  'NATS messages': ['npm nats', /^processMsg$/],
};

/** Calls that arrive together, one on each connection, and the time between two arrivals. A busy machine answers them within it. */
export const CONNECTIONS = 16;
const BURST_EVERY_MS = Number(process.env.COUNT_PAUSE_MS ?? 400);
const BURSTS = BURST_EVERY_MS === 0 ? 60 : 4;
const WINDOWS = 5;
/** Bursts before the first window: the outcome of a call is looked for again 2.5 s after it. */
const SETTLING = 8;

/**
 * Counts the work of a fleet without calls.
 * @param {{root: string, processes: object[], redisUrl: string}} fleet
 */
export function countIdle(fleet) {
  return countWindows(fleet, () => Promise.resolve());
}

/**
 * Counts the work of a fleet for a call, without the work that it does anyway.
 * @param {{root: string, processes: object[], redisUrl: string}} fleet
 * @param {object} idle of `countIdle`
 * @param {() => Promise<void>} burst makes a call on each connection
 * @returns {Promise<{invocations: number, functions: number, threads: number, layers: Record<string, number>, packages: Record<string, number>,
 *   processes: Record<string, number>, top: Record<string, number>, also: Record<string, number>}>} all per call
 */
export async function countCalls(fleet, idle, burst) {
  const busy = await countWindows(fleet, burst);
  const share = busy.ms / idle.ms;
  const perCall = (name) => (busy.counts[name] - share * (idle.counts[name] ?? 0)) / (BURSTS * CONNECTIONS);
  return summary(fleet, new Map(Object.keys(busy.counts).map((name) => [name, perCall(name)])));
}

/** The median of the windows: their time, and counts by names of `countsOf`. */
async function countWindows({ processes, redisUrl }, burst) {
  const take = () => Promise.all(processes.map(({ ask }) => ask('take')));
  const redis = new Redis(redisUrl);
  const windows = [];
  try {
    await paced(SETTLING, burst);
    while (windows.length < WINDOWS) {
      await take();
      await redis.call('CONFIG', 'RESETSTAT');
      const began = performance.now();
      await paced(BURSTS, burst);
      const ms = performance.now() - began;
      windows.push({ ms, counts: countsOf(await take(), await commandsOf(redis)) });
    }
  } finally {
    redis.disconnect();
  }
  const names = new Set(windows.flatMap(({ counts }) => [...counts.keys()]));
  const counts = {};
  for (const name of names) counts[name] = median(windows.map((window) => window.counts.get(name) ?? 0));
  return { ms: median(windows.map(({ ms }) => ms)), counts };
}

const median = (values) => values.toSorted((a, b) => a - b)[(values.length - 1) / 2];

/** Begins a burst at each interval, or when the last one has ended. */
async function paced(bursts, burst) {
  for (let left = bursts; left > 0; left -= 1) await Promise.all([burst(), sleep(BURST_EVERY_MS)]);
}

/** The counts of all processes. Names are JSON: `[process, url, function, offset]`, or `[counter]`. */
function countsOf(taken, commands) {
  const counts = new Map();
  const add = (name, count) => counts.set(name, (counts.get(name) ?? 0) + count);
  taken.forEach(({ functions, native }, index) => {
    for (const [url, title, offset, count] of functions) add(JSON.stringify([index, url, title, offset]), count);
    for (const [name, count] of Object.entries(native)) add(JSON.stringify([name]), count);
  });
  for (const [name, count] of Object.entries(commands)) add(JSON.stringify([name]), count);
  return counts;
}

function summary({ root, processes }, counts) {
  const found = {
    invocations: 0,
    functions: 0,
    threads: 0,
    layers: {},
    packages: {},
    processes: {},
    top: {},
    also: {},
  };
  const add = (table, name, count) => (table[name] = (table[name] ?? 0) + count);
  // A function that runs in several processes is one function.
  const functions = new Map();
  for (const [text, perCall] of counts) {
    const [index, url, title, offset] = JSON.parse(text);
    if (url === undefined) {
      add(found.also, index, perCall);
      continue;
    }
    const { name, thread } = processes[index];
    const isMain = thread === '0';
    add(found.processes, name, perCall);
    if (!isMain) found.threads += perCall;
    const key = `${isMain ? 'main' : 'thread'} ${url}:${offset}`;
    const known = functions.get(key) ?? { isMain, url, title: `${title || '(anonymous)'}:${offset}`, perCall: 0 };
    known.perCall += perCall;
    functions.set(key, known);
  }
  for (const { isMain, url, title, perCall } of functions.values()) {
    if (!isMain) continue;
    const group = packageOf(root, url);
    found.invocations += perCall;
    if (perCall > IN_CALL) found.functions += 1;
    add(found.packages, group, perCall);
    add(found.layers, LAYERS.find(([, pattern]) => pattern.test(group))?.[0] ?? 'others', perCall);
    add(found.top, `${group} ${basename(url)} ${title}`, perCall);
    for (const [counter, [from, name]] of Object.entries(COUNTERS))
      if (group === from && name.test(title.split(':', 1)[0])) add(found.also, counter, perCall);
  }
  return found;
}

/** Commands of Redis since its counters were reset; those inside of scripts are in `Redis commands`, too. */
async function commandsOf(redis) {
  const stats = await redis.info('commandstats');
  const counts = Object.fromEntries(
    [...stats.matchAll(/^cmdstat_([^:]+):calls=(\d+)/gm)].map(([, name, count]) => [name, Number(count)]),
  );
  const sum = (names) => names.reduce((total, name) => total + (counts[name] ?? 0), 0);
  return { 'Redis scripts': sum(['evalsha', 'eval', 'fcall']), 'Redis commands': sum(Object.keys(counts)) };
}

/** The package of a dependency, the folder of an own package, or the file of Node. */
function packageOf(root, url) {
  if (url === '') return 'compiled at run time';
  if (url.startsWith('node:')) return `node ${url.slice('node:'.length)}`;
  const [, dependency] = /.*node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(url) ?? [];
  if (dependency) return `npm ${dependency}`;
  const path = relative(root, url.startsWith('file:') ? fileURLToPath(url) : url);
  return path.split('/dist/', 1)[0];
}

/** Starts the coverage of all processes with a control socket in a folder (`count-hook.mjs`). */
export async function startCoverage(root, folder) {
  const processes = [];
  for (const file of readdirSync(folder)) {
    const [, pid, thread] = /^(\d+)\.(\d+)\.sock$/.exec(file) ?? [];
    const socket = connect(join(folder, file));
    try {
      await once(socket, 'connect');
    } catch {
      continue; // It has ended.
    }
    const lines = createInterface({ input: socket })[Symbol.asyncIterator]();
    const ask = async (command) => {
      socket.write(`${JSON.stringify(command)}\n`);
      const { value, done } = await lines.next();
      const answer = done ? { error: 'ended' } : JSON.parse(value);
      if (answer.error) throw new Error(`process ${pid}, thread ${thread}: ${answer.error}`);
      return answer;
    };
    const { program = 'unknown' } = await ask('start');
    const [, name = basename(program)] = /(?:apps|tools)\/([^/]+)/.exec(relative(root, program)) ?? [];
    processes.push({ name: thread === '0' ? name : `${name}, thread`, thread, ask, close: () => socket.destroy() });
  }
  return processes;
}
