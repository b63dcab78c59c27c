/**
 * Promises B and D on the running fleet: effects of a real MCP server are counted while the executor that runs them is
 * killed, and work without a waiting caller is stopped at its deadline.
 */
import { readdir, readFile, truncate } from 'node:fs/promises';
import { join } from 'node:path';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { eventually } from '@toolfleet/testing';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { startAskingMcpServer, type AskingMcpServer } from '../fleet/asking-mcp-server.js';
import { startCountingMcpServer, type CountingMcpServer } from '../fleet/counting-mcp-server.js';
import { expectOnTime, TestFleet, type Answer } from '../fleet/test-fleet.js';

const DEADLINE_MS = 4_000;
/** Slots of a gateway that one tenant can hold. */
const ASYNC_SLOTS = 3;
const ROUNDS = process.env['FAILURE_SEEDS'] === 'all' ? 5 : 1;

let server: CountingMcpServer;
let asking: AskingMcpServer;
let fleet: TestFleet;
/** Lets the server answer the calls that a test held. */
let release = (): void => undefined;
beforeAll(async () => {
  server = await startCountingMcpServer();
  asking = await startAskingMcpServer();
  fleet = await TestFleet.start({
    services: { gateway: 2, registry: 1, budget: 1, 'mcp-executor': 2, 'python-sandbox': 1 },
    tools: ['sample_save_note', 'sample_count_slowly', 'execute_python', 'rooms_book_room'],
    config: {
      mcp_servers: {
        sample: { url: `${server.origin}/mcp` },
        rooms: { url: `${asking.origin}/mcp`, protocol_version: '2025-11-25' },
      },
    },
    env: {
      EGRESS_ALLOWED_ENDPOINTS: `${server.origin},${asking.origin}`,
      GATEWAY_ASYNC_CONCURRENCY: String(ASYNC_SLOTS + 1),
    },
  });
});
afterEach(async () => {
  release();
  if (!fleet) return;
  await fleet.restore();
  // A breaker that a test opened would refuse the calls of the next one.
  for (const gateway of [0, 1])
    await eventually(`gateway ${gateway} makes calls`, async () => {
      const answer = await fleet.call('sample_save_note', { text: 'between tests', delay_ms: 0 }, { gateway });
      return codeOf(answer) === undefined;
    });
});
afterAll(async () => {
  await fleet?.stop();
  await server?.stop();
  await asking?.stop();
});

interface Timed extends Answer {
  note: string;
  tookMs: number;
}

async function save(note: string, delayMs: number, ask: Parameters<TestFleet['call']>[2] = {}): Promise<Timed> {
  const from = performance.now();
  const answer = await fleet.call('sample_save_note', { text: note, delay_ms: delayMs }, ask);
  return { ...answer, note, tookMs: performance.now() - from };
}

/** States of a call that has not ended. */
const OPEN: ReadonlySet<string> = new Set(['accepted', 'claimed']);

/** The code of its refusal or failure; undefined after success. */
const codeOf = ({ status, body }: Answer): string | undefined =>
  status === 200 ? (body.success ? undefined : body.metadata.code) : body.code;

const withKey = (key: string) => ({ headers: { 'idempotency-key': key } });

describe('an executor killed while it works on calls with effects', () => {
  it.each(Array.from({ length: ROUNDS }, (_, round) => round))('begins no effect twice (round %i)', async (round) => {
    const notes = Array.from({ length: 40 }, (_, index) => `kill-${round}-${index}`);
    const answered = new Set<string>();
    const fields = { timeout_ms: DEADLINE_MS };
    const asked = notes.map(async (note, index) => {
      const answer = await save(note, 1_500 + (index % 5) * 100, { fields });
      answered.add(note);
      return answer;
    });
    // All of them, so that the member to be killed works on some: one alone may have begun at the other member. On a busy machine a
    // call may end at its deadline before it begins.
    const hasBegun = (note: string): boolean => server.notes.has(note) || answered.has(note);
    await eventually('effects have begun', () => notes.every(hasBegun));
    // Still on their way when the member dies.
    for (let index = 0; index < 10; index += 1) asked.push(save(`late-${round}-${index}`, 100, { fields }));
    await fleet.kill('mcp-executor');
    const answers = await Promise.all(asked);

    expectOnTime(answers, DEADLINE_MS);
    for (const answer of answers) {
      const effects = server.notes.get(answer.note) ?? 0;
      const code = codeOf(answer);
      expect(effects, `effects of ${answer.note}, answered ${code ?? 'with success'}`).toBeLessThanOrEqual(1);
      if (code === undefined) expect(effects).toBe(1);
      else expect(['OUTCOME_UNKNOWN', 'EXECUTOR_UNAVAILABLE', 'DEADLINE_EXCEEDED', 'BREAKER_OPEN']).toContain(code);
      // Whatever says that nothing was run must be true.
      if (answer.status !== 200) expect(effects, `${answer.note} was refused with ${code}`).toBe(0);
      if (code === 'OUTCOME_UNKNOWN') expect(answer).toMatchObject({ status: 200, body: { success: false } });
    }
    // The member that was killed had calls in work; the other one's went on.
    expect(answers.some((answer) => codeOf(answer) === 'OUTCOME_UNKNOWN')).toBe(true);
    expect(answers.some((answer) => codeOf(answer) === undefined)).toBe(true);
  });

  it('replays the first answer to a caller that repeats with the same key', async () => {
    const pairs = Array.from({ length: 6 }, (_, index) => ({ note: `keyed-${index}`, key: `key-${index}` }));
    // The answers of the executor that is killed are not waited for longer.
    const ask = { fields: { timeout_ms: 10_000 } };
    const first = pairs.map(({ note, key }) => save(note, 400, { ...withKey(key), ...ask }));
    await eventually('effects have begun', () => pairs.every(({ note }) => server.notes.has(note)));
    await fleet.kill('mcp-executor');
    const told = await Promise.all(first);
    await fleet.launch('mcp-executor');

    const repeated = await Promise.all(pairs.map(({ note, key }) => save(note, 400, { ...withKey(key), ...ask })));
    for (const [index, { note }] of pairs.entries()) {
      expect(server.notes.get(note)).toBe(1);
      expect(codeOf(repeated[index]!), note).toBe(codeOf(told[index]!));
      expect(repeated[index]!.headers.get('x-idempotency-cached')).toBe('true');
    }
    const other = await save('another text', 0, withKey('key-0'));
    expect(other).toMatchObject({ status: 422, body: { code: 'IDEMPOTENCY_MISMATCH' } });
  });
});

/** Leaves a call that would otherwise last 60 s, far longer than any wait of this spec. */
async function callAndLeave(tool: string, args: object, begun: () => Promise<boolean> | boolean): Promise<void> {
  const leaving = new AbortController();
  const asked = fleet.call(tool, args, { signal: leaving.signal, fields: { timeout_ms: 60_000 } });
  const gone = asked.catch((error: Error) => error.name);
  await eventually(`${tool} has begun`, begun);
  leaving.abort();
  expect(await gone).toBe('AbortError');
}

describe('a gateway killed while it waits for calls with effects', () => {
  it('loses no outcome: the executor keeps it for a caller that repeats with the same key, and nothing runs again', async () => {
    const pairs = Array.from({ length: 6 }, (_, index) => ({ note: `left-${index}`, key: `left-key-${index}` }));
    // None may end before the gateway is killed.
    const cut = pairs.map(({ note, key }) =>
      save(note, 2_500, { ...withKey(key), gateway: 1 }).catch((error: Error) => error.name),
    );
    await eventually('effects have begun', () => pairs.every(({ note }) => server.notes.has(note)));
    await fleet.kill('gateway', 1);
    expect(new Set(await Promise.all(cut))).toEqual(new Set(['TypeError']));

    const early = await save(pairs[0]!.note, 2_500, withKey(pairs[0]!.key));
    expect([409, 200]).toContain(early.status);
    await eventually(
      'every key has an outcome',
      async () => {
        const told = await Promise.all(pairs.map(({ note, key }) => save(note, 2_500, withKey(key))));
        for (const answer of told) expect([undefined, 'CALL_IN_PROGRESS']).toContain(codeOf(answer));
        return told.every(({ status }) => status === 200);
      },
      { everyMs: 500 },
    );
    for (const { note } of pairs) expect(server.notes.get(note)).toBe(1);
  });

  it('loses no call it had accepted, and repeats no effect of one', async () => {
    const notes = Array.from({ length: 20 }, (_, index) => `accepted-${index}`);
    const accepted = await Promise.all(notes.map((note) => save(note, 300, { fields: { mode: 'async' }, gateway: 1 })));
    expect(accepted.map(({ status }) => status)).toEqual(notes.map(() => 202));
    await fleet.kill('gateway', 1);
    const states = async () =>
      Promise.all(
        accepted.map(
          async ({ body }) => (await fleet.ask({ path: `/api/v1/calls/${String(body.call_id)}` })).body.status,
        ),
      );
    const final = new Set(['succeeded', 'failed', 'expired', 'outcome_unknown']);
    await eventually('every accepted call has ended', async () => (await states()).every((state) => final.has(state)), {
      everyMs: 500,
    });
    for (const [index, state] of (await states()).entries()) {
      const effects = server.notes.get(notes[index]!) ?? 0;
      expect(effects, `${notes[index]} ended as ${state}`).toBeLessThanOrEqual(1);
      if (state === 'succeeded') expect(effects).toBe(1);
    }
  });
});

/** Cuts the append-only file where a worker took one of these jobs once all were added: what follows had not been synced to the disk. */
async function loseTail(folder: string, jobIds: readonly string[]): Promise<void> {
  const logs = join(folder, 'appendonlydir');
  const name = (await readdir(logs)).find((file) => file.endsWith('.incr.aof'))!;
  const log = await readFile(join(logs, name), 'latin1');
  const added = Math.max(...jobIds.map((id) => log.indexOf(`tool-calls:${id}\r\n`)));
  const taken = jobIds.map((id) => log.indexOf(`tool-calls:${id}\r\n$11\r\nprocessedOn`, added));
  expect(Math.min(...taken), 'every job was taken').toBeGreaterThan(0);
  await truncate(join(logs, name), Math.min(...taken));
}

describe('Redis that comes back without its last second', () => {
  it('repeats no effect of an accepted call: what it has no record of ends as unknown', async () => {
    const accept = async (note: string, delayMs: number, gateway: number): Promise<string> => {
      const { status, body } = await save(note, delayMs, { fields: { mode: 'async', timeout_ms: 120_000 }, gateway });
      expect(status).toBe(202);
      return String(body.call_id);
    };
    const notesOf = (name: string) => Array.from({ length: 2 * ASYNC_SLOTS }, (_, index) => `${name}-${index}`);
    const [first, victims] = [notesOf('tail-first'), notesOf('tail-victim')];
    // No slot is free until all victims are added.
    release = server.hold();
    await Promise.all(first.map((note, index) => accept(note, 0, index % 2)));
    await eventually('every slot is taken', () => first.every((note) => server.notes.has(note)));
    const ids = await Promise.all(victims.map((note, index) => accept(note, 2_000, index % 2)));
    release();
    await eventually('their effects have begun', () => victims.every((note) => server.notes.has(note)));

    // The node of Redis and the gateways fails: no process is left that knows what had begun.
    await Promise.all([fleet.redis.kill(), fleet.kill('gateway', 1), fleet.kill('gateway', 0)]);
    await loseTail(fleet.redis.folder, ids);
    await fleet.redis.restart();
    await Promise.all([fleet.launch('gateway'), fleet.launch('gateway')]);
    const states = async (): Promise<string[]> =>
      Promise.all(ids.map(async (id) => (await fleet.ask({ path: `/api/v1/calls/${id}` })).body.status as string));
    await eventually('every call has ended', async () => (await states()).every((state) => !OPEN.has(state)), {
      everyMs: 300,
    });
    for (const note of [...first, ...victims]) expect(server.notes.get(note), note).toBe(1);
    expect(await states()).toEqual(ids.map(() => 'outcome_unknown'));
  });
});

/** Programs in work. */
async function programs(): Promise<number> {
  const { body } = await fleet.process('python-sandbox').admin('/metrics');
  return Number(/^toolfleet_worker_slots\{[^}]*state="busy"[^}]*\} (\d+)$/m.exec(body)?.[1]);
}

describe('a client that goes away', () => {
  it('stops the call at the remote MCP server', async () => {
    const before = server.cancelled();
    await callAndLeave('sample_count_slowly', { steps: 10_000 }, () => server.counting() === 1);
    await eventually('the server was notified', () => server.cancelled() === before + 1);
    expect(server.counting()).toBe(0);
  });

  it('stops a sandboxed program', async () => {
    expect(await programs()).toBe(0);
    const code = 'while True:\n  pass';
    await callAndLeave('execute_python', { code }, async () => (await programs()) === 1);
    await eventually('the program was ended', async () => (await programs()) === 0);
  });
});

describe('a server of 2025-11-25 that keeps its call open while it asks', () => {
  const clients: Client[] = [];
  afterEach(async () => {
    for (const client of clients.splice(0)) await client.close();
  });

  /** Books a room for as many people as the person says when asked. Requests go to the first gateway that is left. */
  async function book(mode: 'auto' | 'legacy', day: string, answer: () => Promise<number>) {
    const capabilities = { elicitation: { form: {} } };
    const client = new Client({ name: 'person', version: '1' }, { versionNegotiation: { mode }, capabilities });
    client.setRequestHandler('elicitation/create', async () => ({
      action: 'accept',
      content: { people: await answer() },
    }));
    clients.push(client);
    const transport = new StreamableHTTPClientTransport(new URL(`${fleet.url()}/mcp`), {
      requestInit: { headers: { Authorization: `Bearer ${fleet.adminKey}` } },
      fetch: (_url, init) => fetch(`${fleet.url()}/mcp`, init),
    });
    await client.connect(transport);
    return client.callTool({ name: 'rooms_book_room', arguments: { day } });
  }

  it('has an unknown outcome where its executor died, and goes on everywhere else', async () => {
    const people = Array.from({ length: 12 }, (_, index) => index);
    const answers = Promise.withResolvers<void>();
    let asked = 0;
    const results = people.map((index) =>
      book(index % 2 ? 'auto' : 'legacy', `party ${index}`, async () => {
        asked += 1;
        await answers.promise;
        return index;
      }),
    );
    await eventually('all are asked', () => asked === people.length);
    await fleet.kill('mcp-executor');
    answers.resolve();
    const outcomes = (await Promise.all(results)).map(({ isError, content, _meta: meta }, index) => {
      const bookings = asking.bookings.filter((booking) => booking.endsWith(` party ${index}`));
      return isError ? { code: meta?.['code'], bookings } : { content, bookings };
    });
    const lost = outcomes.filter((outcome) => 'code' in outcome);
    expect(lost).toEqual(lost.map(() => ({ code: 'OUTCOME_UNKNOWN', bookings: [] })));
    expect(lost.length).toBeGreaterThan(0);
    expect(lost.length).toBeLessThan(people.length);
    for (const [index, outcome] of outcomes.entries())
      if (!('code' in outcome))
        expect(outcome).toMatchObject({
          content: [{ text: `booked for ${index}` }],
          bookings: [`${index} on party ${index}`],
        });
  });

  it('goes on at another gateway where the one that asked died', async () => {
    const result = await book('auto', 'wedding', async () => {
      await fleet.kill('gateway');
      return 80;
    });
    expect(result).toMatchObject({ isError: false, content: [{ text: 'booked for 80' }] });
    expect(asking.bookings.filter((booking) => booking.endsWith(' wedding'))).toEqual(['80 on wedding']);
  });
});
