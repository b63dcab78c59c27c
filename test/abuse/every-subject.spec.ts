/**
 * Every subject of every service takes random bytes, deep nesting, huge keys and wrong headers, and no process ends. The
 * subjects are the contract's, so a new one is attacked as soon as it exists.
 */
import { randomBytes } from 'node:crypto';
import { REQUESTS } from '@toolfleet/contracts/requests';
import { breakerSubject, builtinSubject, HEADERS, resultSubject, SUBJECTS } from '@toolfleet/contracts/subjects';
import type { Toolset } from '@toolfleet/contracts/tool-definition';
import { NatsClient } from '@toolfleet/transport';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { AbusedFleet, FULL_LENGTH, scaled, type RawMessage } from './abused-fleet.js';

const MESSAGES = scaled(10_000);
/** The largest message that deploy/nats.conf lets through, without room for its headers. */
const MAX_PAYLOAD = 16 * 1024 * 1024 - 4_096;
/** How many messages are on their way before the next ones are sent. */
const WAVE = 50;
const SEED = Number(process.env['ABUSE_SEED'] ?? 1);

const TOOLSETS: readonly Toolset[] = ['compute', 'web', 'files', 'agent'];
const CALL_SUBJECTS = [SUBJECTS.toolCall, SUBJECTS.toolBatch, SUBJECTS.toolList, SUBJECTS.toolCancel] as const;
const EVERY_SUBJECT = [
  ...Object.values(SUBJECTS),
  ...Object.keys(REQUESTS),
  ...CALL_SUBJECTS.map((subject) => `${subject}.globex`),
  ...TOOLSETS.map(builtinSubject),
  resultSubject('globex', 'x'),
  'exec.progress.a.b',
  'mcp.answer.a.b',
  ...['gateway', 'mcp-executor', 'openapi-executor'].map(breakerSubject),
];

/** Numbers from 0 up to 1 that a failed run can repeat (mulberry32). */
function seeded(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296;
  };
}

const random = seeded(SEED);
const upTo = (limit: number): number => Math.floor(random() * limit);
const oneOf = <T>(items: readonly T[]): T => items[upTo(items.length)]!;
const json = (value: unknown): Buffer => Buffer.from(JSON.stringify(value));

/** Fields that services read, so that some messages come further than the first check. */
const FIELDS = [
  ...[
    'name',
    'arguments',
    'calls',
    'call_id',
    'attempt',
    'fence',
    'journalled',
    'tool',
    'tenant_id',
    'context',
    'scope',
  ],
  ...[
    'key',
    'open_for_ms',
    'source',
    'definitions',
    'category',
    'cursor',
    'limit',
    'reserve',
    'items',
    'leases',
    'spec',
  ],
  ...[
    'url',
    'server',
    'kind',
    'revision',
    'user_id',
    'session_id',
    'idempotency_key',
    'prompt_params',
    'token',
    'state',
  ],
];
const VALUES: readonly (() => unknown)[] = [
  () => null,
  () => -1,
  () => 1e308,
  () => 2 ** 53,
  () => '',
  () => '\u0000\ud800\u202e',
  () => '../'.repeat(50),
  () => 'k'.repeat(upTo(100_000)),
  () => [],
  () => Array.from({ length: upTo(2_000) }, () => ({})),
  () => ({ ['__proto__']: { admin: true }, constructor: null, toString: 1 }),
  () => Object.fromEntries(Array.from({ length: upTo(5_000) }, (_, index) => [`k${index}`, index])),
  () => JSON.parse(`${'['.repeat(200)}${']'.repeat(200)}`) as unknown,
];

function hostileObject(depth: number): Record<string, unknown> {
  const entries = Array.from({ length: 1 + upTo(8) }, (): [string, unknown] => [
    oneOf(FIELDS),
    depth > 0 && random() < 0.3 ? hostileObject(depth - 1) : oneOf(VALUES)(),
  ]);
  return Object.fromEntries(entries);
}

/** An attempt as gateways send it to executors. */
const ATTEMPT = {
  tool: 'calculator',
  revision: 'r1',
  arguments: { expression: '1' },
  call_id: 'abuse',
  attempt: 1,
  fence: 1,
  journalled: true,
  entry: { user_id: 'u', remaining_ms: 5_000, deadline_at: Date.now() + 60_000 },
  binding: { kind: 'builtin', toolset: 'compute', handler: 'calculator' },
  context: { tenant_id: 'globex', session_id: 's', user_id: 'u', agent_id: 'a' },
};

/** A copy of an object with one hostile member, at any level. */
function altered(object: object): object {
  const name = oneOf(Object.keys(object));
  const member = (object as Record<string, unknown>)[name];
  const isDeeper = typeof member === 'object' && member !== null && random() < 0.7;
  return { ...object, [name]: isDeeper ? altered(member) : oneOf(VALUES)() };
}

const SMALL: readonly (() => Buffer)[] = [
  () => randomBytes(upTo(4_096)),
  () => Buffer.alloc(0),
  () => Buffer.from('{"a":'.repeat(upTo(2_000))),
  () => Buffer.from('['.repeat(20_000) + ']'.repeat(20_000)),
  () => Buffer.from(`{"name":"calculator","arguments":${'{"a":'.repeat(5_000)}1${'}'.repeat(5_000)}}`),
  () => Buffer.from(`[${'1'.repeat(10_000)}, 1e9999, -0, "\\ud800"]`),
  () => Buffer.from('\ufeff{"name":1}'),
  () => json({ ['k'.repeat(50_000)]: 1 }),
  () => json({ name: 'calculator', arguments: { ['k'.repeat(30_000)]: 1, expression: '1' } }),
  () => json(hostileObject(3)),
  () => json(hostileObject(3)),
  () => json([hostileObject(1), hostileObject(1)]),
  () => json({ ...altered(ATTEMPT), call_id: `abuse-${upTo(1_000_000)}` }),
  () => json(altered(ATTEMPT)),
];
const LARGE: readonly (() => Buffer)[] = [
  () => json({ name: 'calculator', arguments: {}, ['k'.repeat(MAX_PAYLOAD / 2)]: 1 }),
  () => json({ ['k'.repeat(4_000_000)]: { ['k'.repeat(4_000_000)]: 1 } }),
  () => json(Object.fromEntries(Array.from({ length: 200_000 }, (_, index) => [`unknown${index}`, index]))),
  () => Buffer.from('['.repeat(MAX_PAYLOAD)),
  () => Buffer.from('[]'.padStart(MAX_PAYLOAD, '\n')),
  () => randomBytes(MAX_PAYLOAD),
];

const text = (lines: string): Buffer => Buffer.from(`NATS/1.0\r\n${lines}\r\n`);
const header = (name: string, value: string): Buffer => text(`${name}: ${value}\r\n`);
const HEADS: readonly (() => Buffer | undefined)[] = [
  () => undefined,
  () => undefined,
  () => header(HEADERS.remainingMs, oneOf(['NaN', '-1', '1e308', '0', '0x10', ' '])),
  () => header(HEADERS.fence, oneOf(['1', '-1', 'x', '9'.repeat(400)])),
  () => header(HEADERS.callId, 'c'.repeat(upTo(100_000))),
  () => header(HEADERS.authorization, `Bearer ${oneOf(['x'.repeat(40_000), 'tf_test_', 'a.b.c', '\u00e9', ''])}`),
  () => header(HEADERS.progress, oneOf(['>', '*', 'exec.progress.a.b', 'budget.settle', 'a b', '_INBOX.x'])),
  () =>
    header(HEADERS.traceparent, oneOf(['00-0-0-0', '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01', '-'])),
  () => text(Array.from({ length: 2_000 }, (_, index) => `H${index}: v\r\n`).join('')),
  () => text(`${HEADERS.authorization}: a\r\n${HEADERS.authorization.toLowerCase()}: b\r\n`),
  () => Buffer.concat([Buffer.from('NATS/1.0\r\n'), randomBytes(200), Buffer.from('\r\n\r\n')]),
  () => text('no colon at all\r\n: no name\r\n\r\nmore after the end'),
];

function hostileMessage(number: number): RawMessage {
  const headers = oneOf(HEADS)();
  const reply = oneOf([
    '',
    '_INBOX.abuse.reply',
    '_INBOX.abuse.reply',
    'budget.settle',
    '_INBOX.\u00a0\u3000x',
    '_'.repeat(2_000),
  ]);
  const body = random() < 0.01 ? oneOf(LARGE)() : oneOf(SMALL)();
  // With headers the largest bodies would pass the limit of the server and close the connection.
  const hasRoom = body.length < MAX_PAYLOAD / 2;
  return {
    subject: EVERY_SUBJECT[number % EVERY_SUBJECT.length]!,
    reply,
    body,
    ...(headers && hasRoom ? { headers } : {}),
  };
}

let abused: AbusedFleet;
beforeAll(async () => {
  abused = await AbusedFleet.start();
});
afterAll(() => abused?.stop());

describe('hostile messages on NATS', () => {
  it(`${MESSAGES} of them on every subject end no process`, async () => {
    const raw = await abused.rawNats();
    const listener = await NatsClient.connect({ url: abused.fleet.nats.url, name: 'abuse' });
    let answers = 0;
    let largest = 0;
    listener.link.subscribe('_INBOX.abuse.reply', ({ data }) => {
      answers += 1;
      largest = Math.max(largest, data.length);
    });
    await listener.link.flush();
    await abused.survives(async () => {
      for (let number = 0; number < MESSAGES; number += 1) {
        await raw.publish(hostileMessage(number));
        // A request that is answered shows that the gateway has taken what came before.
        if (number % WAVE === 0) await listener.request(SUBJECTS.toolList, {}).catch(() => undefined);
      }
      await expect.poll(() => answers).toBeGreaterThan(MESSAGES / 20);
    });
    expect(largest).toBeLessThan(1024 * 1024);
    raw.close();
    await listener.close();
  });

  it('one unknown key of the largest size, without a credential, is answered in a few bytes', async () => {
    const listener = await NatsClient.connect({ url: abused.fleet.nats.url, name: 'abuse' });
    await abused.survives(async () => {
      const subjects = [...CALL_SUBJECTS, ...CALL_SUBJECTS.map((subject) => `${subject}.globex`)];
      for (const subject of FULL_LENGTH ? subjects : subjects.slice(0, 2)) {
        const body = { name: 'calculator', arguments: {}, ['k'.repeat(MAX_PAYLOAD / 2)]: 1 };
        await expect(listener.request(subject, body, { timeoutMs: 20_000 })).rejects.toMatchObject({
          code: 'UNAUTHENTICATED',
        });
      }
    });
    await listener.close();
  });

  it('huge names in calls that are authenticated are shortened in the answer', async () => {
    const listener = await NatsClient.connect({ url: abused.fleet.nats.url, name: 'abuse' });
    const headers = { [HEADERS.authorization]: `Bearer ${abused.fleet.keys['globex']!}` };
    const huge = 'k'.repeat(4_000_000);
    await abused.survives(async () => {
      for (const body of [
        { name: 'calculator', arguments: {}, [huge]: 1 },
        { name: huge, arguments: {} },
        { name: 'calculator', arguments: { [huge]: 1, expression: '1' } },
      ]) {
        const refusal: unknown = await listener
          .request(SUBJECTS.toolCall, body, { timeoutMs: 20_000, headers })
          .catch((error: unknown) => error);
        expect(JSON.stringify(refusal).length).toBeLessThan(64 * 1024);
      }
    });
    await listener.close();
  });
});
