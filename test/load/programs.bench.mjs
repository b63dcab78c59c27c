/**
 * Cost and savings of programs: the latency of a call inside a program against the same call over HTTP, an empty program against
 * an HTTP call and against `print(1)` by `execute_python`, and one program of 50 calls against 50 HTTP calls and 50 MCP calls,
 * in time, and in bytes: tokens for a model.
 * `npm run bench -- programs`.
 */
import { medianWithSpread } from './spread.mjs';
import { withFleet } from './with-fleet.mjs';

const CALLS = 50;
const ROUNDS = Number(process.env.BENCH_ROUNDS ?? 9);
/** Empty programs and prints per round; a single one says little. */
const REPEATS = 5;
/** Bytes that a model reads and writes per token, in bytes; only ratios of counts are printed. */
const BYTES_PER_TOKEN = 4;

let counter = 0;
const expression = () => `${(counter += 1)} * 3`;

async function bench({ url, api_key: key }) {
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
  const post = async (path, body, more = {}) => {
    const sent = JSON.stringify(body);
    const answer = await fetch(`${url}${path}`, { method: 'POST', headers: { ...headers, ...more }, body: sent });
    const text = await answer.text();
    if (!answer.ok) throw new Error(`${path}: ${answer.status} ${text.slice(0, 300)}`);
    return { text, bytes: sent.length + text.length };
  };
  const http = (tool, args) => post(`/api/v1/tools/${tool}/execute`, { arguments: args });
  const mcp = (tool, args) =>
    post(
      '/mcp',
      {
        jsonrpc: '2.0',
        id: (counter += 1),
        method: 'tools/call',
        params: { name: tool, arguments: args },
      },
      { accept: 'application/json, text/event-stream' },
    );
  const timed = async (work) => {
    const from = performance.now();
    const bytes = await work();
    return { ms: performance.now() - from, bytes };
  };
  const oneByOne = (call) => async () => {
    let bytes = 0;
    for (let i = 0; i < CALLS; i += 1) bytes += (await call('calculator', { expression: expression() })).bytes;
    return bytes;
  };
  const program = (code) => async () => {
    const inputs = Array.from({ length: CALLS }, expression);
    const { text, bytes } = await http('run_program', { code, inputs });
    const { success, error } = JSON.parse(text);
    if (!success) throw new Error(error);
    return bytes;
  };
  const ways = {
    http: oneByOne(http),
    mcp: oneByOne(mcp),
    program: program('[tools.calculator(expression=e)["result"] for e in inputs]'),
    gathered: program('[r["result"] for r in gather(*[tools.calculator(expression=e) for e in inputs])]'),
  };
  const empty = program('len(inputs)');
  const print = async () => (await http('execute_python', { code: `print(1) # ${(counter += 1)}` })).bytes;
  for (const way of [...Object.values(ways), empty, print]) for (let i = 0; i < 3; i += 1) await way();
  const repeated = async (way) => {
    const times = [];
    for (let i = 0; i < REPEATS; i += 1) times.push((await timed(way)).ms);
    return medianWithSpread(times).median;
  };

  const seen = Object.fromEntries(Object.keys(ways).map((name) => [name, []]));
  const inner = [];
  const empties = { http: [], print: [] };
  for (let round = 0; round < ROUNDS; round += 1) {
    for (const [name, way] of Object.entries(ways)) seen[name].push(await timed(way));
    const [start, printed] = [await repeated(empty), await repeated(print)];
    const at = (name) => seen[name].at(-1).ms;
    inner.push((at('program') - start) / at('http'));
    empties.http.push((start * CALLS) / at('http'));
    empties.print.push(start / printed);
  }
  const ratio = (name, what) =>
    medianWithSpread(seen[name].map((one, round) => one[what] / seen.http[round][what])).median;
  const tokens = (name) => Math.round(seen[name].at(-1).bytes / BYTES_PER_TOKEN);
  return {
    name: 'programs',
    call_inside_to_call_over_http: medianWithSpread(inner),
    empty_program_to_http_call: medianWithSpread(empties.http),
    empty_program_to_print: medianWithSpread(empties.print),
    [`${CALLS}_calls_to_http`]: Object.fromEntries(
      ['mcp', 'program', 'gathered'].map((name) => [name, { time: ratio(name, 'ms'), bytes: ratio(name, 'bytes') }]),
    ),
    tokens_of_a_model: { http: tokens('http'), mcp: tokens('mcp'), program: tokens('program') },
  };
}

/** @param {string} root of the repository */
export const programsBench = (root) => withFleet(root, bench, { env: { PYTHON_SANDBOX_THREADS: '1' } });
