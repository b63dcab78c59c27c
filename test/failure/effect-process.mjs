/**
 * The two halves of a call with an effect, as processes that can be killed: `gateway` runs the engine with the Redis
 * journal and answers JSON lines on stdin; `executor` listens on a port, has its effect (a counter in Redis) behind the gate
 * of the journal, and replies. CRASH_AT names the moment at which the process kills itself with SIGKILL, as if somebody else had.
 */
import { createConnection, createServer } from 'node:net';
import { createInterface } from 'node:readline';
import { ToolError } from '@toolfleet/contracts';
import { Executor, makeExecuteCall, toExecMessage } from '@toolfleet/engine';
import { JournalGuard, RedisJournal } from '@toolfleet/journal';
import { connectRedis, openRedis } from '@toolfleet/queue';
import { SystemClock } from '@toolfleet/resilience';
import { memoryPorts } from '@toolfleet/testing/memory-ports';

const { CRASH_AT = '', REDIS_URL = '', EXECUTOR_PORT = '0' } = process.env;
const clock = new SystemClock();
const redis = connectRedis(REDIS_URL, { name: 'effect-process' });
await openRedis(redis, REDIS_URL);
const journal = new RedisJournal(redis, clock);
const moment = (name) => {
  if (name === CRASH_AT) process.kill(process.pid, 'SIGKILL');
};

function runExecutor() {
  const gate = new JournalGuard(journal, clock);
  const server = createServer((socket) => {
    socket.on('error', () => {});
    const lines = createInterface({ input: socket });
    lines.on('error', () => {}); // a gateway that was killed resets its connection
    lines.on('line', async (line) => {
      const { effect, ...sent } = JSON.parse(line);
      moment('executor: before the claim');
      const message = { ...sent, journalled: true, tool: 'send_email', context: { tenant_id: 'acme' } };
      const reply = await gate
        .run(message, async (begin) => {
          await begin();
          moment('executor: after the claim');
          await redis.incr(`effect:${effect}`);
          moment('executor: after the effect');
          return { ok: true, output: 'sent', text: 'sent', metadata: {} };
        })
        .catch(() => null);
      socket.write(`${JSON.stringify(reply)}\n`);
    });
  });
  server.listen(Number(EXECUTOR_PORT), '127.0.0.1', () => console.log(JSON.stringify({ port: server.address().port })));
}

/** What the executor of this file reads of a message. */
const pick = ({ call_id, attempt, fence, entry }, { arguments: { effect } }) => ({
  call_id,
  attempt,
  fence,
  entry,
  effect,
});

/** Sends one attempt to the executor; a connection that breaks says nothing about the effect. */
class SocketExecutor extends Executor {
  execute(call) {
    return new Promise((resolve, reject) => {
      const lost = () => reject(new ToolError('EXECUTOR_UNAVAILABLE', { message: 'the executor is gone' }));
      const socket = createConnection({ port: Number(EXECUTOR_PORT), host: '127.0.0.1' });
      socket.once('error', lost).once('close', lost);
      call.signal.addEventListener('abort', () => socket.destroy(), { once: true });
      createInterface({ input: socket })
        .on('error', () => {})
        .on('line', (line) => {
          const reply = JSON.parse(line);
          if (!reply) return reject(new ToolError('EXECUTOR_UNAVAILABLE', { message: 'claim refused' }));
          moment('gateway: before the outcome is stored');
          resolve(reply);
          socket.end();
        });
      socket.write(`${JSON.stringify(pick(toExecMessage(call), call))}\n`, () =>
        moment('gateway: after the message left'),
      );
    });
  }
}

function runGateway() {
  const tool = {
    name: 'send_email',
    version: '1.0.0',
    description: '',
    category: 'mail',
    revision: 'r',
    available: true,
    input_schema: { type: 'object', properties: { effect: { type: 'string' } }, required: ['effect'] },
    binding: { kind: 'builtin', toolset: 'compute', handler: 'send_email' },
    source: { kind: 'builtin', name: 'builtin' },
    idempotent: false,
    rate_limit: 0,
  };
  const watched = Object.create(journal, {
    accept: {
      value: async (ask) => {
        moment('gateway: before the call is entered');
        const answer = await journal.accept(ask);
        moment('gateway: after the call is entered');
        return answer;
      },
    },
    finish: {
      value: async (...outcome) => {
        const stored = await journal.finish(...outcome);
        moment('gateway: after the outcome is stored');
        return stored;
      },
    },
    find: { value: (...key) => journal.find(...key) },
    withdraw: { value: (...call) => journal.withdraw(...call) },
  });
  const execute = makeExecuteCall(memoryPorts([tool], new SocketExecutor(), { clock, journal: watched }));
  createInterface({ input: process.stdin }).on('line', async (line) => {
    const { id, effect, timeLeftMs, key } = JSON.parse(line);
    const outcome = await execute({
      callId: id,
      target: { toolName: 'send_email' },
      input: { rawArguments: { effect } },
      principal: { tenantId: 'acme', userId: 'ann', roles: [], tools: ['*'], via: 'api_key' },
      origin: 'public',
      entryPoint: 'nats',
      context: {},
      limits: { deadlineAt: clock.now() + timeLeftMs },
      signal: new AbortController().signal,
      mode: { kind: 'run' },
      reuse: { idempotencyKey: key },
    }).then(
      (result) => ({ ok: result.ok, code: result.failure?.code }),
      (error) => ({ ok: false, code: error.code }),
    );
    console.log(JSON.stringify({ id, ...outcome }));
  });
  console.log(JSON.stringify({ ready: true }));
}

if (process.argv[2] === 'executor') runExecutor();
else runGateway();
