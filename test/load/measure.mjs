/** Measuring for the load scripts: bounded HTTP load from this process's children, CPU and memory of given pids. */
import autocannon from 'autocannon';
import { existsSync, readdirSync, readFileSync } from 'node:fs';

/** CPU time of a process so far in microseconds: of its threads, by /proc in ns (ticks of 10 ms are too coarse here). */
export function cpuMicros(pid) {
  const nanos = readdirSync(`/proc/${pid}/task`).map((thread) =>
    Number(readFileSync(`/proc/${pid}/task/${thread}/schedstat`, 'utf8').split(' ')[0]),
  );
  return nanos.reduce((sum, value) => sum + value, 0) / 1_000;
}

/** The same by the process's own count, in steps of 10 ms, threads that ended included. */
function tickMicros(pid) {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ').at(-1).split(' ');
  return (Number(fields[11]) + Number(fields[12])) * 10_000;
}

/** Resident memory of a process in MiB. */
export function rssMiB(pid) {
  const kib = /VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1];
  return Math.round(Number(kib ?? 0) / 1024);
}

/** Memory of a process in KiB: resident, and `pss`, in which pages that processes share count in part. */
export function memoryKib(pid) {
  const text = readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8');
  const read = (name) => Number(new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(text)?.[1] ?? 0);
  return { rss: read('Rss'), pss: read('Pss') };
}

/** CPU time of the main thread of a process so far, in ms: time on a core, and time for which it was ready and had none. */
export function mainThreadMs(pid) {
  const [ran, waited] = readFileSync(`/proc/${pid}/task/${pid}/schedstat`, 'utf8').split(' ').map(Number);
  return { ran: ran / 1e6, waited: waited / 1e6 };
}

/** Memory of a process and its descendants in MiB; pages that they share count once. */
export function treeMiB(pid) {
  const kib = processTree(pid).map((each) => {
    try {
      return memoryKib(each).pss;
    } catch {
      return 0; // Ended meanwhile.
    }
  });
  return Math.round(kib.reduce((sum, each) => sum + each, 0) / 1024);
}

/** Pids of a process and its descendants. */
export function processTree(pid) {
  let children = [];
  try {
    children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ').filter(Boolean).map(Number);
  } catch {
    // Ended meanwhile.
  }
  return [pid, ...children.flatMap(processTree)];
}

/**
 * Closed-loop load. `bodyOf(n)` makes the n-th body, so that no two calls are alike; an answer without `good` is a fault.
 * @returns calls/s, p50/p99 in ms, and CPU µs per call of each named process
 */
export async function load({ url, headers = {}, bodyOf, connections, seconds, processes, good = '"success":true' }) {
  let n = 0;
  const before = Object.fromEntries(Object.entries(processes).map(([name, pid]) => [name, cpuMicros(pid)]));
  const failures = [];
  const instance = autocannon({
    url,
    method: 'POST',
    connections,
    duration: seconds,
    headers: { 'content-type': 'application/json', ...headers },
    requests: [{ setupRequest: (request) => ({ ...request, body: bodyOf(n++) }) }],
    verifyBody: (body) => {
      const isGood = body.includes(good);
      if (!isGood && failures.length < 3) failures.push(String(body).slice(0, 300));
      return isGood;
    },
  });
  const result = await instance;
  if (result.non2xx || result.mismatches || result.errors) {
    throw new Error(
      `bad answers: ${result.non2xx} non-2xx, ${result.mismatches} failed, ${result.errors} errors; ${failures.join(' | ')}`,
    );
  }
  const calls = result.requests.total;
  const cpu = Object.fromEntries(
    Object.entries(processes).map(([name, pid]) => [name, Math.round((cpuMicros(pid) - before[name]) / calls)]),
  );
  return {
    calls_per_second: Math.round(calls / result.duration),
    p50_ms: result.latency.p50,
    p99_ms: result.latency.p99,
    cpu_us_per_call: cpu,
  };
}

/** CPU µs per call of all processes of a measurement by `load`. */
export const totalCpuMicros = ({ cpu_us_per_call: cpu }) => Object.values(cpu).reduce((sum, one) => sum + one, 0);

/**
 * Closed-loop load by any client: `connections` loops of `send` for so many seconds or calls, for sub-millisecond latencies and entry points other than HTTP.
 * @param {() => Promise<void>} send makes one call; rejects when the answer is not the expected one
 * @returns calls/s, p50/p99 in ms, and CPU µs per call of each named process
 */
export async function closedLoop(send, { connections, seconds = Infinity, calls = Infinity, processes }) {
  const times = [];
  const before = Object.entries(processes).map(([name, pid]) => [name, pid, cpuMicros(pid), tickMicros(pid)]);
  const from = performance.now();
  const until = from + seconds * 1_000;
  let started = 0;
  const loop = async () => {
    for (let sent = performance.now(); sent < until && started < calls;) {
      started += 1;
      await send();
      const answered = performance.now();
      times.push(answered - sent);
      sent = answered;
    }
  };
  await Promise.all(Array.from({ length: connections }, loop));
  const lasted = (performance.now() - from) / 1_000;
  const sorted = Float64Array.from(times).toSorted();
  const at = (share) => Number(sorted[Math.floor((sorted.length - 1) * share)].toFixed(2));
  // A child that was idle may have ended: an MCP server of another path.
  const running = before.filter(([, pid]) => existsSync(`/proc/${pid}/task`));
  const cpu = running.map(([name, pid, micros, ticks]) => {
    const [used, coarsely] = [cpuMicros(pid) - micros, tickMicros(pid) - ticks];
    // Threads that ended took their time with them; the process's own count keeps it.
    return [name, (used < coarsely / 2 ? coarsely : used) / times.length];
  });
  return {
    calls_per_second: times.length / lasted,
    p50_ms: at(0.5),
    p99_ms: at(0.99),
    cpu_us_per_call: Object.fromEntries(cpu),
  };
}
