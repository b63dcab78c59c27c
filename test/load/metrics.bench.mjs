/**
 * Cost of the metrics of 1,000 tools in one gateway: CPU time of counting a successful call, and, for each value of METRICS_TOOL_LABEL,
 * series, bytes of a scrape and CPU time of rendering it. Run after a build: `node test/load/metrics.bench.mjs`.
 */
import { createMetrics } from '@toolfleet/telemetry';
import { CallMetrics } from '../../libs/engine-adapters/dist/call-telemetry.js';
import { ToolLabels } from '../../libs/engine-adapters/dist/tool-labels.js';

const TOOLS = 1_000;
const SOURCES = 20;
const SCRAPES = 15;
const CALLS = 100_000;
const ROUNDS = 15;
const FAILURES = [
  ['TOOL_ERROR', 'execution_error'],
  ['ATTEMPT_TIMED_OUT', 'timeout'],
  ['NETWORK_ERROR', 'network_error'],
  ['ARGUMENTS_INVALID', 'invalid_arguments'],
  ['INTERNAL', 'internal_error'],
  ['CANCELLED', 'timeout'],
];

console.log('µs of CPU per call, median and quartiles', countCalls());
for (const by of ['tool', 'source', 'executor']) {
  for (const outcomes of ['successes', 'every outcome']) {
    console.log(by, outcomes, await measure(by, outcomes));
  }
}

/** Rounds over all tools, after one that is not counted. */
function countCalls() {
  const meter = new CallMetrics(createMetrics({ version: '0', revision: '0' }), new ToolLabels('tool'));
  const perCall = [];
  const tools = Array.from({ length: TOOLS }, (_, number) => toolOf(number));
  for (let round = 0; round <= ROUNDS; round += 1) {
    const before = process.cpuUsage();
    for (let call = 0; call < CALLS; call += 1) callOnce(meter, tools[call % TOOLS], 'successes');
    const { user, system } = process.cpuUsage(before);
    if (round > 0) perCall.push((user + system) / CALLS);
  }
  const sorted = perCall.toSorted((a, b) => a - b);
  const at = (share) => Number(sorted[Math.floor(share * (ROUNDS - 1))].toFixed(2));
  return [at(0.5), at(0.25), at(0.75)];
}

async function measure(by, outcomes) {
  const metrics = createMetrics({ version: '0', revision: '0' });
  const meter = new CallMetrics(metrics, new ToolLabels(by));
  for (let number = 0; number < TOOLS; number += 1) callOnce(meter, toolOf(number), outcomes);
  const cpuMs = [];
  let text = '';
  for (let scrape = 0; scrape < SCRAPES; scrape += 1) {
    const before = process.cpuUsage();
    text = await metrics.scrape();
    const { user, system } = process.cpuUsage(before);
    cpuMs.push((user + system) / 1_000);
  }
  const series = text.split('\n').filter((line) => line.includes('tool_name=')).length;
  return { series, bytes: text.length, cpu_ms_median: cpuMs.toSorted((a, b) => a - b)[Math.floor(SCRAPES / 2)] };
}

function toolOf(number) {
  const kind = number % 2 ? 'mcp' : 'openapi';
  const source = { kind, name: `source${number % SOURCES}` };
  return { name: `source_update_customer_record_${number}`, source, binding: { kind } };
}

function callOnce(meter, tool, outcomes) {
  const call = { tool, request: { entryPoint: 'http' } };
  const record = { call, ok: true, durationMs: 12, executeMs: 10, microUsd: 1_000, attempts: 1 };
  meter.finished(record);
  if (outcomes === 'successes') return;
  for (const [code, errorType] of FAILURES) meter.finished({ ...record, ok: false, code, errorType });
  meter.rateLimited(tool);
  meter.tokensAvailable(tool, 5);
  meter.outputMismatched(tool);
  for (const outcome of ['hit', 'miss', 'coalesced']) meter.cacheLookup(tool, outcome);
  for (const kind of ['stale_cache', 'stub_data', 'graceful_error']) meter.fellBack(tool, kind);
}
