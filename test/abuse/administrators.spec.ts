/**
 * Administrators of one tenant against the stores of the fleet: each writes as much as its quotas take, over and over, and another tenant is
 * answered about as fast as before.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { WebhookReceiver } from '../../apps/records/spec/webhook-receiver.js';
import { DEFAULT_QUOTAS } from '@toolfleet/contracts/account';
import { AbusedFleet, FULL_LENGTH, scaled } from './abused-fleet.js';

let receiver: WebhookReceiver;
let abused: AbusedFleet;
/** Of an administrator of the attacking tenant. */
let key: string;
beforeAll(async () => {
  receiver = await WebhookReceiver.start();
  abused = await AbusedFleet.start({
    services: { gateway: 1, registry: 1, budget: 1, records: 1, identity: 1, 'builtin-executor': 1 },
    tools: ['calculator'],
    env: { BUILTIN_TOOLSETS: 'compute', EGRESS_ALLOWED_ENDPOINTS: receiver.origin },
  });
  const spec = { tenant_id: 'globex', client: 'boss', roles: ['admin'], tier: 'wide' };
  const made = await abused.attack({ path: '/api/v1/keys', body: spec, key: abused.fleet.operatorKey });
  expect(made.status, made.text).toBe(201);
  key = made.body.token;
});
afterAll(async () => {
  await abused?.stop();
  await receiver?.stop();
});

/** Sends requests, four at a time, and counts what they were answered. */
async function flood(count: number, request: (index: number) => { path: string; method?: string; body?: unknown }) {
  const answers: Record<string, number> = {};
  for (let index = 0; index < count; index += 4)
    await Promise.all(
      [0, 1, 2, 3].map(async (at) => {
        const { status, body } = await abused.attack({ key, ...request(index + at) });
        const answer = status < 400 ? 'ok' : String(body.code ?? status);
        answers[answer] = (answers[answer] ?? 0) + 1;
      }),
    );
  return answers;
}

/** Floods while the victim calls. Nothing of the fleet fails: a request is done or refused with a reason. */
async function fair(attack: string, count: number, request: Parameters<typeof flood>[1], expected: string[]) {
  let answers: Record<string, number> = {};
  const harm = await abused.measured(attack, async () => {
    answers = await flood(scaled(count), request);
  });
  expect(harm.p99Ms).toBeLessThanOrEqual(harm.maxP99Ms);
  expect(
    Object.keys(answers).filter((answer) => !['ok', 'QUEUE_FULL', 'RATE_LIMITED', ...expected].includes(answer)),
  ).toEqual([]);
  expect(answers['ok'] ?? 0).toBeGreaterThan(0);
}

describe('one tenant’s administrators', () => {
  it('declare as much as they may', async () => {
    const note = 'x'.repeat(200);
    const owned = Object.fromEntries(Array.from({ length: 1_000 }, (_, index) => [`keys/${index}`, note]));
    await fair(
      'declarations',
      1_000,
      (index) => ({
        method: 'PUT',
        path: `/api/v1/declarations/d${index % 25}`,
        body: { revision: 0, owned: index % 25 === 0 ? owned : {}, applying: false },
      }),
      ['STATE_CONFLICT', 'QUOTA_EXCEEDED'],
    );
  });

  it('make toolsets and versions of them', async () => {
    const tools = Array.from({ length: 200 }, (_, index) => `tool_${index}_${'x'.repeat(40)}`);
    await fair(
      'toolsets',
      1_000,
      (index) => ({
        method: 'PUT',
        path: `/api/v1/toolsets/t${index % 10}`,
        body: { description: `version ${index}`, include: { tools } },
      }),
      ['REQUEST_INVALID', 'QUOTA_EXCEEDED'],
    );
  });

  it('make keys and revoke them', async () => {
    await fair(
      'keys',
      2_000,
      (index) => ({ path: '/api/v1/keys', body: { client: `c${index}`, expires_in_seconds: 60 } }),
      ['REQUEST_INVALID', 'QUOTA_EXCEEDED'],
    );
  });

  it('set budgets, and list calls, sessions and connections', async () => {
    await fair(
      'budgets and lists',
      // A budget takes half a second to come into force.
      400,
      (index) =>
        [
          { method: 'PUT', path: '/api/v1/budgets', body: { subject: 'user', id: `u${index}`, limit_usd: 20 } },
          { path: '/api/v1/calls?limit=500', method: 'GET' },
          { path: '/api/v1/usage', method: 'GET' },
          { path: '/api/v1/webhooks', method: 'GET' },
        ][index % 4]!,
      ['NOT_FOUND'],
    );
  });

  it('have 20 webhooks, no more, and fan every call out to them', async () => {
    const url = (index: number) => `${receiver.origin}/${index}`;
    const create = (index: number) =>
      abused.attack({ key, path: '/api/v1/webhooks', body: { url: url(index), kinds: ['call.finished'] } });
    for (let index = 0; index < DEFAULT_QUOTAS.webhooks; index += 1) expect((await create(index)).status).toBe(201);
    const refused = await create(99);
    expect([refused.status, refused.body.code]).toEqual([429, 'QUOTA_EXCEEDED']);
    /** The median time of another tenant's list of calls. */
    const listMs = async (): Promise<number> => {
      const times: number[] = [];
      for (let index = 0; index < 20; index += 1) {
        const from = performance.now();
        expect((await abused.fleet.ask({ path: '/api/v1/calls?limit=50' })).status).toBe(200);
        times.push(performance.now() - from);
      }
      return times.toSorted((a, b) => a - b)[10]!;
    };
    const quietMs = await listMs();
    const body = (index: number) => ({ arguments: { expression: `${index} + 0.25` } });
    await fair(
      'fan-out of 20 webhooks',
      2_000,
      (index) => ({ path: '/api/v1/tools/calculator/execute', body: body(index) }),
      [],
    );
    expect(await listMs()).toBeLessThanOrEqual(FULL_LENGTH ? 3 * Math.max(20, quietMs) : Number.POSITIVE_INFINITY);
    expect(receiver.received.length).toBeGreaterThan(0);
  });
});
