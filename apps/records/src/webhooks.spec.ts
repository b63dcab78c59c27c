/** Events, their deliveries and the sender, on both databases and with a real receiver. */
import { randomUUID } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DEFAULT_QUOTAS } from '@toolfleet/contracts/account';
import type { FleetEvent } from '@toolfleet/contracts/events';
import type { FinishedCall } from '@toolfleet/contracts/records';
import type { NewWebhook } from '@toolfleet/contracts/resources';
import { postgresDialect, sqliteDialect } from '@toolfleet/database';
import { EgressClient } from '@toolfleet/egress';
import { createLogger, createMetrics } from '@toolfleet/telemetry';
import { eventually, FakeClock, POSTGRES_PROGRAMS, startPostgres, type PostgresServer } from '@toolfleet/testing';
import type { Dialect } from 'kysely';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest';
import { WebhookReceiver } from '../spec/webhook-receiver.js';
import { RecordedCallStore } from './call-store.js';
import { WebhookSender } from './webhook-sender.js';

const KEY = 'a-records-key-for-tests-0123456789abcdef';
const HOUR = 3_600_000;

const call = (id: string, more: Partial<FinishedCall> = {}): FinishedCall => ({
  call_id: id,
  ended_at: 1_790_000_000_000,
  tenant_id: 'acme',
  user_id: 'ann',
  tool: 'calculator',
  entry_point: 'http',
  origin: 'public',
  status: 'success',
  outcomes: { transport: 'delivered', protocol: 'ok', tool: 'ok' },
  attempts: 1,
  duration_ms: 20,
  stages: { admit_ms: 1, wait_ms: 2, queue_ms: 3, execute_ms: 10, rest_ms: 4 },
  micro_usd: 1_500,
  tokens: 7,
  ...more,
});
const quarantine = (tool: string, revision = 'r1'): FleetEvent => ({
  kind: 'tool.quarantined',
  tenant_id: 'acme',
  at: 1_790_000_000_000,
  tool,
  data: { tool, source: 'mcp/crm@acme', reason: 'changed', pending_revision: revision, approved_revision: null },
});

function conformance(name: string, makeDialect: () => Promise<() => Dialect>): void {
  describe(`webhooks: ${name}`, () => {
    let clock: FakeClock;
    let dialect: () => Dialect;
    let store: RecordedCallStore;
    let receiver: WebhookReceiver;
    let egress: EgressClient;
    let sender: WebhookSender;

    const startSender = (): WebhookSender => {
      const host = {
        clock,
        logger: createLogger({ service: 'records', level: 'silent' }),
        metrics: createMetrics({ version: '0', revision: 'test' }),
      };
      const { webhooks: endpoints, deliveries: queue } = store;
      const started = new WebhookSender({ queue, endpoints, egress, timeoutMs: 10_000, maxPending: 100_000 }, host);
      store.events.onStored((stored) => started.wake(stored.endpoints));
      return started;
    };
    const create = (path: string, more: Partial<NewWebhook & { tenant_id: string }> = {}) =>
      store.webhooks.create(
        { tenant_id: 'acme', url: receiver.origin + path, kinds: ['call.finished'], created_by: 'ann', ...more },
        clock.now(),
      );
    const append = (...calls: FinishedCall[]) => store.append(randomUUID(), calls, clock.now());
    const log = async (id: string) =>
      (await store.deliveries.list(id, { limit: 100 })).deliveries.map(({ state, attempts, status, error }) => ({
        state,
        attempts,
        status,
        error,
      }));
    /** Lets the sender look for due deliveries after some time. */
    const later = async (ms: number) => {
      clock.advance(ms);
      sender.wake(await store.deliveries.due(clock.now()));
    };

    beforeEach(async () => {
      // The library of receivers refuses events of another time.
      clock = new FakeClock(Date.now());
      dialect = await makeDialect();
      store = new RecordedCallStore(dialect(), KEY);
      await store.open();
      receiver = await WebhookReceiver.start();
      egress = new EgressClient({ allowlist: [], allowedEndpoints: [receiver.origin] });
      sender = startSender();
    });
    afterEach(async () => {
      await egress.close();
      await sender.drain();
      await receiver.stop();
      await store.close();
    });

    it('posts what an endpoint asked for, signed, once per event', async () => {
      const { webhook, secret } = await create('/all');
      await create('/tools', { tools: ['report_*'] });
      await create('/toolsets', { toolsets: ['support'] });
      await create('/quarantine', { kinds: ['tool.quarantined'] });
      await create('/other', { tenant_id: 'globex' });
      await append(call('a'), call('b', { tool: 'report_day' }), call('c', { toolset: 'support@3' }));
      await append(call('a'));
      expect(await store.events.add([quarantine('crm_get'), quarantine('crm_get')], clock.now())).toBe(1);
      expect(await store.events.add([quarantine('crm_get')], clock.now())).toBe(0);
      await eventually('all are delivered', async () => receiver.received.length === 6);
      const events = receiver.at('/all').map((one) => receiver.verified(one, secret)) as {
        data: { call_id: string };
      }[];
      expect(events.map(({ data }) => data.call_id).toSorted()).toEqual(['a', 'b', 'c']);
      expect(events.find(({ data }) => data.call_id === 'a')).toMatchObject({
        type: 'call.finished',
        timestamp: new Date(1_790_000_000_000).toISOString(),
        tenant_id: 'acme',
        data: { status: 'success', cost_usd: 0.0015, user_id: 'ann' },
      });
      expect(() => receiver.verified(receiver.at('/all')[0]!, 'whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA')).toThrow();
      expect(receiver.at('/tools').map(({ body }) => JSON.parse(body).data.tool)).toEqual(['report_day']);
      expect(receiver.at('/toolsets').map(({ body }) => JSON.parse(body).data.call_id)).toEqual(['c']);
      expect(receiver.at('/quarantine')).toHaveLength(1);
      await eventually('the log', async () => (await log(webhook.id)).every(({ state }) => state === 'delivered'));
    });

    it('signs with both secrets while they overlap', async () => {
      const { webhook, secret } = await create('/hook');
      const named = { tenant_id: 'acme', id: webhook.id };
      const rotated = await store.webhooks.rotate(named, 60_000, clock.now());
      await append(call('a'));
      await eventually('a delivery', async () => receiver.received.length === 1);
      for (const one of [secret, rotated.secret]) receiver.verified(receiver.received[0]!, one);
      clock.advance(60_000);
      await append(call('b'));
      await eventually('another', async () => receiver.received.length === 2);
      receiver.verified(receiver.received[1]!, rotated.secret);
      expect(() => receiver.verified(receiver.received[1]!, secret)).toThrow();
    });

    it('retries for a day with the same id, and then gives up', async () => {
      // The longest pauses are more than a day together.
      const random = vi.spyOn(Math, 'random').mockReturnValue(0.999);
      onTestFinished(() => random.mockRestore());
      const { webhook } = await create('/down');
      receiver.answers.set('/down', { status: 500 });
      await append(call('a'));
      await eventually('the first attempt', async () => (await log(webhook.id))[0]!.status === 500);
      await sender.idle();
      expect(await log(webhook.id)).toMatchObject([{ state: 'pending', attempts: 1, error: 'HTTP 500' }]);
      expect(await store.webhooks.one({ tenant_id: 'acme', id: webhook.id })).toMatchObject({ last_error: 'HTTP 500' });
      const firstAt = clock.now();
      let lastAt = firstAt;
      for (let minutes = 0; minutes < 1_800 && (await log(webhook.id))[0]!.state === 'pending'; minutes += 5) {
        const before = receiver.at('/down').length;
        await later(5 * 60_000);
        await sender.idle();
        if (receiver.at('/down').length > before) lastAt = clock.now();
      }
      const [ended] = await log(webhook.id);
      expect(ended!.state).toBe('failed');
      // 5 s, 30 s and 2 min fall into one step. Pauses vary, and the last attempt is at the end of the day all the same.
      expect(ended!.attempts).toBeGreaterThan(7);
      expect((lastAt - firstAt) / HOUR).toBeGreaterThan(20);
      expect((lastAt - firstAt) / HOUR).toBeLessThanOrEqual(24);
      expect(new Set(receiver.received.map(({ id }) => id)).size).toBe(1);

      receiver.answers.delete('/down');
      clock.advance(60_000);
      expect(await store.deliveries.redeliver(webhook.id, { failedSince: 0 }, clock.now())).toBe(1);
      await later(0);
      await eventually('delivered again', async () => (await log(webhook.id))[0]!.state === 'delivered');
      await sender.idle();
      expect(await store.webhooks.one({ tenant_id: 'acme', id: webhook.id })).toMatchObject({ failing_since: null });
    });

    it('switches an endpoint off that answers 410, and waits as long as one asks', async () => {
      const { webhook } = await create('/gone');
      const busy = await create('/busy');
      receiver.answers.set('/gone', { status: 410 });
      receiver.answers.set('/busy', { status: 429, headers: { 'retry-after': '1800' } });
      await append(call('a'));
      const named = { tenant_id: 'acme', id: webhook.id };
      await eventually('off', async () => (await store.webhooks.one(named)).state === 'gone');
      expect(await log(webhook.id)).toMatchObject([{ state: 'failed', attempts: 1, status: 410 }]);
      await append(call('b'));
      expect(await log(webhook.id)).toHaveLength(1);
      await eventually('an answer', async () => (await log(busy.webhook.id)).some(({ status }) => status === 429));
      await later(1_700_000);
      expect(receiver.at('/busy').map(({ body }) => JSON.parse(body).data.call_id)).not.toEqual(['a', 'a']);

      receiver.answers.delete('/gone');
      await store.webhooks.change(named, { on: true });
      await append(call('c'));
      await eventually('on again', async () => receiver.at('/gone').length === 2);
      await sender.idle();
      receiver.answers.delete('/busy');
      await sender.renew(busy.webhook.id);
      await eventually(
        'what waited',
        async () =>
          (await store.deliveries.list(busy.webhook.id, { limit: 9, state: 'delivered' })).deliveries.length === 3,
      );
    });

    it('delivers to one endpoint while others hang, and what a killed process left', async () => {
      const hanging = await Promise.all([1, 2, 3, 4].map((index) => create(`/hangs${index}`)));
      await create('/works');
      for (const index of [1, 2, 3, 4]) receiver.answers.set(`/hangs${index}`, 'hang');
      for (let index = 0; index < 30; index += 1) await append(call(`c${index}`));
      await eventually('all of the one that works', async () => receiver.at('/works').length === 30);
      // One request at a time to an endpoint that has not answered yet.
      expect(receiver.received.filter(({ path }) => path.startsWith('/hangs'))).toHaveLength(4);

      // The process is killed with requests under way: another one takes over when the claims have ended.
      await egress.close();
      await sender.drain();
      await store.close();
      receiver.answers.clear();
      store = new RecordedCallStore(dialect(), KEY);
      egress = new EgressClient({ allowlist: [], allowedEndpoints: [receiver.origin] });
      sender = startSender();
      await later(60_000);
      await eventually('all of all', async () => {
        const ids = hanging.map((_, index) => new Set(receiver.at(`/hangs${index + 1}`).map(({ id }) => id)).size);
        return ids.every((count) => count === 30);
      });
    });

    it('are as many as the quota of their tenant; of events that wait too, the endpoint with the most is switched off', async () => {
      for (let index = 0; index < DEFAULT_QUOTAS.webhooks; index += 1)
        await create(`/${index}`, { kinds: ['webhook.none' as never] });
      await expect(create('/more')).rejects.toMatchObject({
        code: 'QUOTA_EXCEEDED',
        details: { quota: 'webhooks', limit: 20 },
      });
      await create('/other', { tenant_id: 'globex' });
      receiver.answers.set('/hangs', { status: 500 });
      const [first, second] = await store.webhooks.list('acme');
      for (const { id } of [first!, second!])
        await store.webhooks.change(
          { tenant_id: 'acme', id },
          { kinds: ['call.finished'], url: `${receiver.origin}/hangs` },
        );
      await store.webhooks.change({ tenant_id: 'acme', id: second!.id }, { tools: ['calculator'] });
      await append(call('a'), call('b', { tool: 'report_day' }));
      await eventually(
        'both failed once',
        async () => (await store.deliveries.backlog(clock.now() + HOUR, 0)).pending === 3,
      );
      expect((await store.deliveries.backlog(clock.now(), 3)).overfull).toEqual([]);
      expect((await store.deliveries.backlog(clock.now(), 2)).overfull).toEqual([first!.id]);
    });

    it('forgets ended deliveries, and all that a tenant or user left', async () => {
      const { webhook } = await create('/hook');
      await append(call('a'), call('b', { user_id: 'bob' }));
      await eventually('delivered', async () => (await log(webhook.id)).every(({ state }) => state === 'delivered'));
      const { deliveries } = store;
      expect(await deliveries.erase({ tenantId: 'acme', userId: 'bob' }, true)).toEqual({
        webhooks: 0,
        webhook_deliveries: 1,
      });
      await deliveries.erase({ tenantId: 'acme', userId: 'bob' }, false);
      expect(await log(webhook.id)).toHaveLength(1);
      await store.forgetEvents(clock.now() + 1);
      expect(await log(webhook.id)).toEqual([]);
      expect(await deliveries.erase({ tenantId: 'acme' }, false)).toEqual({ webhooks: 1, webhook_deliveries: 0 });
      expect(await store.webhooks.list('acme')).toEqual([]);
    });
  });
}

const folders: string[] = [];
afterAll(() => {
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
});

conformance('SQLite', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'toolfleet-webhooks-'));
  folders.push(folder);
  return () => sqliteDialect(join(folder, 'records.db'));
});

describe.skipIf(POSTGRES_PROGRAMS === undefined)('with PostgreSQL', () => {
  let server: PostgresServer;
  let databases = 0;
  beforeAll(async () => {
    server = await startPostgres();
  });
  afterAll(() => server?.stop());
  conformance('PostgreSQL', async () => {
    const url = await server.createDatabase(`webhooks_${(databases += 1)}`);
    return () => postgresDialect(url);
  });
});

it('refuses webhooks without a key for their secrets', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'toolfleet-webhooks-'));
  folders.push(folder);
  const store = new RecordedCallStore(sqliteDialect(join(folder, 'records.db')));
  await store.open();
  const sent = {
    tenant_id: 'acme',
    url: 'https://hooks.example.com',
    kinds: ['call.finished' as const],
    created_by: 'ann',
  };
  await expect(store.webhooks.create(sent, 0)).rejects.toMatchObject({
    code: 'REQUEST_INVALID',
    message: expect.stringContaining('RECORDS_SECRET_KEY'),
  });
  await store.close();
});
