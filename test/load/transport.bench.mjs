/**
 * The transport against the stock path, in one run: `nc.request` with a plain subscription, our client with our Nest
 * strategy, the same with the ack-first exec hop, and the floor for a protocol of our own: messages written to and read from a socket
 * with nothing else. Each pair is two processes; NATS is a third. Closed loop, bounded to
 * under a minute. Trust the ratios of one run, not the absolute figures of a shared machine.
 *
 *   node test/load/transport.bench.mjs [--seconds 1.5] [--rounds 3] [--in-flight 1,32,64] [--paths stock,ours,ours-acked,socket] [--json]
 *
 * Needs `tsc -b libs/transport` and nats-server.
 */
import { fork, spawn } from 'node:child_process';
import { once } from 'node:events';
import { connect as connectSocket } from 'node:net';
import { cpus, loadavg } from 'node:os';
import { fileURLToPath } from 'node:url';
import { freePort } from '../../tools/local/child-process.mjs';
import { cpuMicros } from './measure.mjs';

const BODY = {
  call_id: 'call-0123456789',
  attempt: 1,
  fence: 1,
  journalled: false,
  tool: 'calculator',
  revision: '0123456789abcdef',
  binding: { kind: 'builtin', toolset: 'compute', handler: 'calculator' },
  arguments: { expression: '2 + 2 * 7' },
  context: { tenant_id: 'local', session_id: 'session-1' },
};
const option = (name, fallback) => {
  const at = process.argv.indexOf(`--${name}`);
  return at < 0 ? fallback : process.argv[at + 1];
};
const PATHS = option('paths', 'stock,ours,ours-acked,socket').split(',');

process.on('message', (message) => message === 'end' && process.exit());
if (process.env.BENCH_ROLE === 'responder') await respond(process.env.BENCH_PATH, process.env.BENCH_NATS);
else if (process.env.BENCH_ROLE === 'requester') await request(process.env.BENCH_PATH, process.env.BENCH_NATS);
else await main();

async function respond(path, url) {
  const work = (body) => ({ ok: true, output: body.arguments.expression.length, text: '16', metadata: {} });
  if (path === 'socket') {
    const link = await openSocket(url, (_subject, reply, body) => link.publish(reply, '', work(body)));
    link.subscribe(`bench.${path}`);
    return void process.send('ready');
  }
  if (path === 'stock') {
    const { connect } = await import('nats');
    const nats = await connect({ servers: url });
    const encoder = new TextEncoder();
    const decoder = new TextDecoder();
    nats.subscribe(`bench.${path}`, {
      queue: 'bench',
      callback: (_error, message) => {
        message.respond(encoder.encode(JSON.stringify(work(JSON.parse(decoder.decode(message.data))))));
      },
    });
    await nats.flush();
  } else {
    const { NestFactory } = await import('@nestjs/core');
    const { Controller, Module } = await import('@nestjs/common');
    const { Endpoint, NatsClient, NatsStrategy } = await import('@toolfleet/transport');
    class BenchEndpoint {
      async run(body) {
        return work(body);
      }
    }
    Endpoint(`bench.${path}`, { exec: true })(
      BenchEndpoint.prototype,
      'run',
      Object.getOwnPropertyDescriptor(BenchEndpoint.prototype, 'run'),
    );
    Controller()(BenchEndpoint);
    class BenchModule {}
    Module({ controllers: [BenchEndpoint] })(BenchModule);
    const client = await NatsClient.connect({ url, name: 'bench-responder' });
    const strategy = new NatsStrategy({ connection: client, queue: 'bench' });
    const app = await NestFactory.createMicroservice(BenchModule, { strategy, logger: false });
    await app.listen();
  }
  process.send('ready');
}

async function request(path, url) {
  let call;
  if (path === 'socket') {
    const waiting = new Map();
    let next = 0;
    const link = await openSocket(url, (subject, _reply, body) => {
      waiting.get(subject)(body);
      waiting.delete(subject);
    });
    link.subscribe('_INBOX.bench.*');
    call = () => {
      const inbox = `_INBOX.bench.${(next += 1)}`;
      link.publish(`bench.${path}`, inbox, BODY);
      return new Promise((resolve) => waiting.set(inbox, resolve));
    };
  } else if (path === 'stock') {
    const { connect } = await import('nats');
    const nats = await connect({ servers: url });
    const encoder = new TextEncoder();
    const decoder = new TextDecoder();
    call = async () => {
      const reply = await nats.request(`bench.${path}`, encoder.encode(JSON.stringify(BODY)), { timeout: 5_000 });
      return JSON.parse(decoder.decode(reply.data));
    };
  } else {
    const { NatsClient } = await import('@toolfleet/transport');
    const client = await NatsClient.connect({ url, name: 'bench-requester' });
    const bumpFence = async (fence) => fence + 1;
    call =
      path === 'ours'
        ? () => client.request(`bench.${path}`, BODY, { timeoutMs: 5_000 })
        : () => client.requestAcked(`bench.${path}`, BODY, { timeoutMs: 5_000, bumpFence });
  }
  process.on('message', async ({ inFlight, ms }) => {
    if (inFlight === undefined) return;
    const latencies = [];
    const began = performance.now();
    const loop = async () => {
      while (performance.now() - began < ms) {
        const at = performance.now();
        const reply = await call();
        if (reply.ok !== true) throw new Error(`bad reply ${JSON.stringify(reply)}`);
        latencies.push(performance.now() - at);
      }
    };
    await Promise.all(Array.from({ length: inFlight }, loop));
    const seconds = (performance.now() - began) / 1_000;
    latencies.sort((a, b) => a - b);
    const at = (share) => Number(latencies[Math.floor(latencies.length * share)].toFixed(2));
    process.send({ count: latencies.length, seconds, p50: at(0.5), p99: at(0.99) });
  });
  process.send('ready');
}

/** Headers as our client sends them with a call. */
const HEADERS = Buffer.from(
  'NATS/1.0\r\ntraceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00\r\nx-deadline-ms: 5000\r\n\r\n',
);

/**
 * The least that an own implementation of the NATS client protocol has to do: messages with headers, of one tick in one write.
 * No time-outs, errors or reconnects.
 */
async function openSocket(url, received) {
  const { hostname, port } = new URL(url);
  const socket = connectSocket(Number(port), hostname);
  socket.setNoDelay(true);
  socket.write('CONNECT {"verbose":false,"headers":true}\r\n');
  let pending = [];
  let rest = Buffer.alloc(0);
  socket.on('data', (chunk) => {
    let data = rest.length > 0 ? Buffer.concat([rest, chunk]) : chunk;
    for (;;) {
      const end = data.indexOf('\r\n');
      if (end < 0) break;
      // HMSG <subject> <sid> [reply] <bytes of headers> <bytes>
      const words = data.latin1Slice(0, end).split(' ');
      if (words[0] !== 'HMSG') {
        if (words[0] === 'PING') socket.write('PONG\r\n');
        data = data.subarray(end + 2);
        continue;
      }
      const total = Number(words.at(-1));
      if (data.length < end + total + 4) break;
      const body = JSON.parse(data.utf8Slice(end + 2 + Number(words.at(-2)), end + 2 + total));
      received(words[1], words.length === 6 ? words[3] : '', body);
      data = data.subarray(end + total + 4);
    }
    rest = data;
  });
  await once(socket, 'data');
  return {
    subscribe: (subject) => socket.write(`SUB ${subject} 1\r\n`),
    publish(subject, reply, body) {
      const json = JSON.stringify(body);
      const sizes = `${HEADERS.length} ${HEADERS.length + Buffer.byteLength(json)}`;
      pending.push(`HPUB ${subject} ${reply ? `${reply} ` : ''}${sizes}\r\n${HEADERS}${json}\r\n`);
      if (pending.length > 1) return;
      setImmediate(() => {
        socket.write(pending.join(''));
        pending = [];
      });
    },
  };
}

async function main() {
  const ms = Number(option('seconds', '1.5')) * 1_000;
  const rounds = Number(option('rounds', '3'));
  const depths = option('in-flight', '1,32,64').split(',').map(Number);
  const port = await freePort();
  const broker = spawn('nats-server', ['-a', '127.0.0.1', '-p', String(port)], { stdio: 'ignore' });
  const children = [broker];
  const stop = () => children.forEach((child) => child.kill('SIGKILL'));
  process.once('exit', stop);
  try {
    await new Promise((resolve) => setTimeout(resolve, 500));
    const url = `nats://127.0.0.1:${port}`;
    const start = async (role, path) => {
      const env = { ...process.env, BENCH_ROLE: role, BENCH_PATH: path, BENCH_NATS: url };
      const child = fork(fileURLToPath(import.meta.url), {
        env,
        execArgv: process.env.BENCH_EXEC_ARGV?.split(' ') ?? [],
      });
      children.push(child);
      await once(child, 'message');
      return child;
    };
    const pairs = [];
    for (const path of PATHS) {
      const responder = await start('responder', path);
      const requester = await start('requester', path);
      const run = async (inFlight, duration) => {
        requester.send({ inFlight, ms: duration });
        return (await once(requester, 'message'))[0];
      };
      await run(32, 1_000); // compiled code, warm sockets
      pairs.push({ path, run, pids: { requester: requester.pid, responder: responder.pid, nats: broker.pid } });
    }
    // Rounds alternate between the paths, so that a busy moment of the machine hits all of them.
    const cells = new Map();
    for (let round = 0; round < rounds; round++) {
      for (const inFlight of depths) {
        for (const { path, run, pids } of pairs) {
          const before = Object.fromEntries(Object.entries(pids).map(([name, pid]) => [name, cpuMicros(pid)]));
          const result = await run(inFlight, ms);
          const cpu = Object.entries(pids).map(([name, pid]) => [name, cpuMicros(pid) - before[name]]);
          const key = `${path}/${inFlight}`;
          cells.set(key, [...(cells.get(key) ?? []), { ...result, path, inFlight, cpu: Object.fromEntries(cpu) }]);
        }
      }
    }
    const rows = [...cells.values()].map((results) => {
      const count = results.reduce((sum, result) => sum + result.count, 0);
      const cpu = Object.fromEntries(
        Object.keys(results[0].cpu).map((name) => [
          name,
          Math.round(results.reduce((sum, result) => sum + result.cpu[name], 0) / count),
        ]),
      );
      return {
        path: results[0].path,
        in_flight: results[0].inFlight,
        requests_per_second: Math.round(median(results.map((result) => result.count / result.seconds))),
        p50_ms: median(results.map((result) => result.p50)),
        p99_ms: median(results.map((result) => result.p99)),
        cpu_us: cpu,
        cpu_us_total: cpu.requester + cpu.responder + cpu.nats,
      };
    });
    for (const row of rows) {
      const stock = rows.find((other) => other.path === PATHS[0] && other.in_flight === row.in_flight);
      row.rate_against_first = Number((row.requests_per_second / stock.requests_per_second).toFixed(2));
      row.cpu_against_first = Number((row.cpu_us_total / stock.cpu_us_total).toFixed(2));
    }
    if (process.argv.includes('--json'))
      console.log(
        JSON.stringify({ node: process.version, cpus: cpus().length, load_average: loadavg(), rows }, null, 2),
      );
    else {
      console.table(
        rows.map(({ cpu_us: cpu, ...row }) => ({ ...row, cpu: `${cpu.requester}+${cpu.responder}+${cpu.nats}` })),
      );
    }
  } finally {
    stop();
  }
}

function median(values) {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)];
}
