/**
 * Webhooks while services are killed at random: every recorded call reaches every endpoint at least once, always under one id, whatever
 * the endpoints answer; an endpoint that hangs delays no other.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { eventually } from '@toolfleet/testing';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { WebhookReceiver } from '../../apps/records/spec/webhook-receiver.js';
import { killAtRandom, type Killed } from '../fleet/random-kills.js';
import { TestFleet } from '../fleet/test-fleet.js';

const ALL = process.env['FAILURE_SEEDS'] === 'all';
const KILLS = Number(process.env['FAILURE_KILLS'] ?? (ALL ? 100 : 4));
const KILLED: readonly Killed[] = ['records', 'gateway', ...(ALL ? (['nats', 'redis'] as const) : [])];
const IN_FLIGHT = 4;
/** Between two calls of a caller: each call is three deliveries, so that many more calls would test the machine. */
const BETWEEN_MS = 100;

let receiver: WebhookReceiver;
let fleet: TestFleet;
beforeAll(async () => {
  receiver = await WebhookReceiver.start();
  fleet = await TestFleet.start({
    services: { gateway: 2, registry: 1, budget: 1, records: 1, 'builtin-executor': 1 },
    together: ['registry', 'budget', 'builtin-executor'],
    tools: ['calculator'],
    env: { EGRESS_ALLOWED_ENDPOINTS: receiver.origin },
    envOf: { records: { WEBHOOK_TIMEOUT_MS: '1000' } },
  });
});
afterAll(async () => {
  await fleet?.stop();
  await receiver?.stop();
});

const create = async (path: string) => {
  const url = receiver.origin + path;
  const made = await fleet.ask({ path: '/api/v1/webhooks', body: { url, kinds: ['call.finished'] } });
  expect(made.status, made.text).toBe(201);
  return made.body as { webhook: { id: string }; secret: string };
};
/** Ids of the events of each call that a path received. */
function idsOf(path: string): Map<string, Set<string>> {
  const ids = new Map<string, Set<string>>();
  for (const { id, body } of receiver.at(path)) {
    const call = JSON.parse(body).data.call_id as string;
    ids.set(call, (ids.get(call) ?? new Set()).add(id));
  }
  return ids;
}
/** Ids of all recorded calls; undefined while their service is starting. */
async function recorded(): Promise<string[] | undefined> {
  const ids: string[] = [];
  for (let after = '0'; ;) {
    const { status, body } = await fleet.ask({ path: `/api/v1/calls?after=${after}&limit=500` });
    if (status === 503) return;
    expect(status).toBe(200);
    ids.push(...body.calls.map(({ call_id: id }: { call_id: string }) => id));
    if (body.next === undefined) return ids;
    after = body.next;
  }
}

describe('webhooks while services are killed', () => {
  it('get every recorded call at least once, under one id', async () => {
    const works = await create('/works');
    const fails = await create('/fails');
    const hangs = await create('/hangs');
    receiver.answers.set('/hangs', 'hang');
    let isOver = false;
    let made = 0;
    const calling = Array.from({ length: IN_FLIGHT }, async () => {
      while (!isOver) {
        made += 1;
        receiver.answers.set('/fails', { status: made % 3 === 0 ? 500 : 200 });
        const gateway = made % Math.max(1, fleet.running.get('gateway')?.length ?? 1);
        await fleet.call('calculator', { expression: `${made}+1` }, { gateway }).catch(() => sleep(50));
        await sleep(BETWEEN_MS);
      }
    });
    await killAtRandom(fleet, { names: KILLED, kills: KILLS, pauseMs: { least: 200, spread: 600 } });
    isOver = true;
    await Promise.all(calling);
    receiver.answers.clear();
    // Gateways record calls in their order, so that those before are recorded with these.
    const last = await Promise.all(
      [0, 1].map(async (gateway) => {
        const { status, body, text } = await fleet.call('calculator', { expression: `0.${gateway}` }, { gateway });
        expect(status, text).toBe(200);
        return String(body.call_id);
      }),
    );
    for (const { webhook } of [works, fails, hangs])
      await fleet.ask({ method: 'PUT', path: `/api/v1/webhooks/${webhook.id}`, body: { on: true } });
    const calls = await eventuallyAll(last);
    for (const path of ['/works', '/fails', '/hangs']) {
      const ids = idsOf(path);
      expect(
        calls.filter((id) => ids.get(id)?.size !== 1),
        path,
      ).toEqual([]);
    }
    for (const one of receiver.at('/works').slice(-20)) receiver.verified(one, works.secret);
    const repeated = receiver.at('/works').length - idsOf('/works').size;
    console.log(JSON.stringify({ made, recorded: calls.length, kills: KILLS, repeated }));
  }, 1_800_000);

  /** Waits until `last` are recorded, and every recorded call has reached every endpoint. Deliveries of a killed process are due when their claims have ended. */
  async function eventuallyAll(last: readonly string[]): Promise<string[]> {
    let calls: string[] = [];
    await eventually(
      'all deliveries',
      async () => {
        const now = await recorded();
        if (now === undefined || !last.every((id) => now.includes(id))) return false;
        calls = now;
        return ['/works', '/fails', '/hangs'].every((path) => {
          const ids = idsOf(path);
          return calls.every((id) => ids.has(id));
        });
      },
      { everyMs: 500 },
    );
    return calls;
  }
});
