/**
 * Promise B (docs/call-lifecycle.md): a tool with effects never begins its effect twice. Gateway and executor are killed at
 * every moment of a journalled call; then the caller repeats its call with the same idempotency key until it gets an answer.
 */
import { randomUUID } from 'node:crypto';
import type { ChildProcess } from 'node:child_process';
import { createConnection } from 'node:net';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { RedisJournal } from '@toolfleet/journal';
import { SystemClock } from '@toolfleet/resilience';
import { endChild, eventually, spawnChild, startRedis, type RedisServer } from '@toolfleet/testing';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

const SCRIPT = fileURLToPath(new URL('effect-process.mjs', import.meta.url));
/** Nine cases start their processes at once, and a call that runs meanwhile has to end in time. */
const DEADLINE_MS = 5_000;
/** The journal's grace, after which a call that died in between has an outcome. */
const GRACE_MS = 5_000;

let server: RedisServer;
const started: ChildProcess[] = [];
beforeAll(async () => {
  server = await startRedis({ appendOnly: true });
});
afterAll(async () => {
  await Promise.all(started.map((child) => endChild(child)));
  await server?.stop();
});

interface Answer {
  id: string;
  ok: boolean;
  code?: string;
}

/** A process that prints JSON lines. */
class Peer {
  readonly #lines: AsyncIterator<string>;
  readonly gone: Promise<undefined>;

  private constructor(readonly child: ChildProcess) {
    started.push(child);
    this.#lines = createInterface({ input: child.stdout! })[Symbol.asyncIterator]();
    this.gone = new Promise((resolve) => child.once('exit', () => resolve(undefined)));
  }

  static async start(
    role: 'gateway' | 'executor',
    env: Record<string, string>,
  ): Promise<{ peer: Peer; hello: { port?: number } }> {
    const peer = new Peer(
      spawnChild(process.execPath, [SCRIPT, role], {
        stdio: ['pipe', 'pipe', 'inherit'],
        env: { REDIS_URL: server.url, ...env },
      }),
    );
    return { peer, hello: (await peer.line()) as { port?: number } };
  }

  /** The next line, or undefined when the process is gone. */
  async line(): Promise<unknown> {
    const next = this.#lines.next().then(({ value, done }) => (done ? undefined : (JSON.parse(value) as unknown)));
    return Promise.race([next, this.gone.then(() => next)]);
  }

  /** Makes one call; undefined when the gateway died over it. */
  async call(effect: string, key: string | undefined, id: string = randomUUID()): Promise<Answer | undefined> {
    this.child.stdin!.write(`${JSON.stringify({ id, effect, key, timeLeftMs: DEADLINE_MS })}\n`);
    return (await this.line()) as Answer | undefined;
  }
}

const MOMENTS: [moment: string, effects: number, repeated: Partial<Answer>][] = [
  ['no process dies', 1, { ok: true }],
  ['gateway: before the call is entered', 1, { ok: true }],
  ['gateway: after the call is entered', 1, { ok: true }],
  ['gateway: after the message left', 1, { ok: true }],
  ['gateway: before the outcome is stored', 1, { ok: true }],
  ['gateway: after the outcome is stored', 1, { ok: true }],
  ['executor: before the claim', 1, { ok: true }],
  ['executor: after the claim', 0, { code: 'OUTCOME_UNKNOWN' }],
  ['executor: after the effect', 1, { code: 'OUTCOME_UNKNOWN' }],
];

describe.concurrent('killed at every moment of a call with an effect', () => {
  test.each(MOMENTS)('%s', { timeout: 120_000 }, async (moment, effects, expected) => {
    const [effect, key] = [randomUUID(), randomUUID()];
    const { peer: executor, hello } = await Peer.start(
      'executor',
      moment.startsWith('executor') ? { CRASH_AT: moment } : {},
    );
    const env = { EXECUTOR_PORT: String(hello.port) };
    const { peer: doomed } = await Peer.start(
      'gateway',
      moment.startsWith('gateway') ? { ...env, CRASH_AT: moment } : env,
    );
    const first = await doomed.call(effect, key);
    if (!moment.startsWith('gateway')) expect(first).toBeDefined();

    if (moment.startsWith('executor')) {
      await executor.gone;
      await Peer.start('executor', env);
    }
    const { peer: other } = await Peer.start('gateway', env);
    const until = Date.now() + DEADLINE_MS + GRACE_MS + 20_000;
    let answer: Answer | undefined;
    do {
      answer = await other.call(effect, key);
      if (answer?.ok || answer?.code === 'OUTCOME_UNKNOWN') break; // all else is temporary: in progress, no responder
      await new Promise((resolve) => setTimeout(resolve, 200));
    } while (Date.now() < until);

    expect(Number(await server.client().get(`effect:${effect}`))).toBe(effects);
    expect(answer).toMatchObject(expected);
    expect(await other.call(effect, key)).toMatchObject(expected); // and stays so
    expect(Number(await server.client().get(`effect:${effect}`))).toBe(effects);
  });
});

/**
 * A call without a key is not repeated: its answers (undefined: none), what the journal has in the end, and what a copy of its message does.
 */
const UNKEYED: [moment: string, effects: number, answers: (string | undefined)[], state: string][] = [
  ['no process dies', 1, ['ok'], 'succeeded'],
  ['gateway: after the message left', 1, [undefined], 'succeeded'],
  ['gateway: before the outcome is stored', 1, [undefined], 'succeeded'],
  // It answers while the outcome is being stored.
  ['gateway: after the outcome is stored', 1, ['ok', undefined], 'succeeded'],
  ['executor: before the claim', 0, ['EXECUTOR_UNAVAILABLE'], 'expired'],
  ['executor: after the claim', 0, ['OUTCOME_UNKNOWN'], 'outcome_unknown'],
  ['executor: after the effect', 1, ['OUTCOME_UNKNOWN'], 'outcome_unknown'],
];

describe.concurrent('killed at every moment of a call that its claim enters', () => {
  test.each(UNKEYED)('%s', { timeout: 120_000 }, async (moment, effects, expected, state) => {
    const [effect, id] = [randomUUID(), randomUUID()];
    const crash = { CRASH_AT: moment };
    const { peer: executor, hello } = await Peer.start('executor', moment.startsWith('executor') ? crash : {});
    const env = { EXECUTOR_PORT: String(hello.port) };
    const { peer: gateway } = await Peer.start('gateway', moment.startsWith('gateway') ? { ...env, ...crash } : env);
    const answer = await gateway.call(effect, undefined, id);
    expect(expected).toContain(answer?.ok ? 'ok' : answer?.code);

    const journal = new RedisJournal(server.client(), new SystemClock());
    const ended = async (): Promise<boolean> => (await journal.read(id))?.state === state;
    await eventually(`the call is ${state}`, ended, { everyMs: 100 });
    if (moment.startsWith('executor')) {
      await executor.gone;
      await Peer.start('executor', env);
    }
    const entry = { user_id: 'ann', remaining_ms: DEADLINE_MS, deadline_at: Date.now() + DEADLINE_MS };
    const copy = { call_id: id, attempt: 1, fence: 1, entry, effect };
    expect(await sendTo(Number(env.EXECUTOR_PORT), copy)).toBeNull();
    expect(Number(await server.client().get(`effect:${effect}`))).toBe(effects);
    expect((await journal.read(id))?.state).toBe(state);
  });
});

/** Sends a message to an executor, as its gateway does. @returns its reply: null when it refused the claim */
async function sendTo(port: number, message: object): Promise<unknown> {
  const socket = createConnection({ port, host: '127.0.0.1' });
  socket.write(`${JSON.stringify(message)}\n`);
  try {
    for await (const line of createInterface({ input: socket })) return JSON.parse(line);
    return undefined;
  } finally {
    socket.destroy();
  }
}
