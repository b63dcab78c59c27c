/**
 * The fleet as it is deployed: NATS runs deploy/nats.conf, Redis the users of deploy/redis.acl.template, and every service and
 * toolset connects as the user that is meant for it. Everything works, and neither server has refused anything.
 */
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { EVENTS, type EventKind, type FleetEvent, type SentEvent } from '@toolfleet/contracts/events';
import { eventReportSubject } from '@toolfleet/contracts/subjects';
import { eventually } from '@toolfleet/testing';
import { NatsClient } from '@toolfleet/transport';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { WebhookReceiver } from '../../apps/records/spec/webhook-receiver.js';
import { EVERY_KIND, TOOLS_OF_EVERY_KIND } from '../fleet/every-kind.js';
import { redisContents, restartRedis, unexpired, type RedisEnd } from '../fleet/redis-contents.js';
import { startSampleServices, type SampleServices } from '../fleet/sample-services.js';
import { ofEach, TestFleet } from '../fleet/test-fleet.js';

const TOOLSETS = ['compute', 'web', 'files', 'agent'] as const;

let samples: SampleServices;
let fleet: TestFleet;
let nats: NatsClient;
let receiver: WebhookReceiver;
beforeAll(async () => {
  [samples, receiver] = await Promise.all([startSampleServices(), WebhookReceiver.start()]);
  fleet = await TestFleet.start({
    services: { ...ofEach(1), 'builtin-executor': 0 },
    tools: [],
    config: samples.config,
    env: { ...samples.env, GATEWAY_TRUST_TENANT_SUBJECTS: 'true' },
    envOf: { records: { EGRESS_ALLOWED_ENDPOINTS: receiver.origin } },
  });
  for (const toolset of TOOLSETS) await fleet.launch('builtin-executor', { BUILTIN_TOOLSETS: toolset });
  await fleet.untilListed(TOOLS_OF_EVERY_KIND);
  nats = await NatsClient.connect({ name: 'spec', ...fleet.nats.loginOf('acme')! });
});
afterAll(async () => {
  await nats?.close();
  await fleet?.stop();
  await Promise.all([samples?.stop(), receiver?.stop()]);
});

/** What Redis refused since its start. */
const redisRefusals = async () =>
  ((await fleet.redis.client().call('ACL', 'LOG')) as unknown[]).map((entry) => JSON.stringify(entry));

describe('the users of deploy/', () => {
  it.each(EVERY_KIND)('%s', (_what, run) => run({ fleet, nats, samples, subjectOf: (verb) => `tool.${verb}.acme` }));

  it.each<RedisEnd>(['a clean shutdown', 'SIGKILL'])('lose nothing when Redis restarts after %s', async (end) => {
    const note = { text: `before ${end}` };
    const headers = { 'idempotency-key': note.text };
    const saved = await fleet.call('sample_save_note', note, { headers });
    expect(saved.status, saved.text).toBe(200);
    // Its first use is after the restart, so that the gateway does not know it yet.
    const body = { client: `made-before-${end.replaceAll(' ', '-')}`, tenant_id: 'acme', tier: 'wide' };
    const made = await fleet.ask({ path: '/api/v1/keys', body, key: fleet.operatorKey });
    const processes = new Set(fleet.all.map(({ process }) => process));
    for (const process of processes) process.pause();
    try {
      expect(await redisRefusals()).toEqual([]);
      const before = await redisContents(fleet.redis.client());
      expect(Object.keys(before).length).toBeGreaterThan(50);
      await restartRedis(fleet.redis, end);
      const after = await redisContents(fleet.redis.client());
      const now = Date.now();
      expect(unexpired(after, now)).toEqual(unexpired(before, now));
    } finally {
      for (const process of processes) process.resume();
    }
    const key = String(made.body.token);
    const works = async () => (await fleet.call('calculator', { expression: '20+3' }, { key })).status === 200;
    await eventually('calls with the new key run', works, { everyMs: 100 });
    const repeated = await fleet.call('sample_save_note', note, { headers });
    expect(repeated).toMatchObject({ status: 200, body: { call_id: saved.body.call_id, output: saved.body.output } });
  });

  describe('report events', () => {
    const AT = Date.parse('2026-11-21T12:00:00.000Z');
    const instant = new Date(AT).toISOString();
    const call = { call_id: 'c1', tool: 'calculator', user_id: 'ann' };
    const DATA: { [K in EventKind]: FleetEvent<K>['data'] } = {
      'call.finished': {
        ...call,
        status: 'success',
        ended_at: instant,
        duration_ms: 1,
        cost_usd: 0,
        tokens: 0,
      },
      'approval.asked': { ...call, approval_id: 'a1', questions: ['Pay?'], expires_at: instant },
      'approval.decided': { ...call, approval_id: 'a1', decision: 'approved', decided_by: ['boss'] },
      'budget.reached': { scope: 'tenant', percent: '80', currency: 'usd', limit: 10, spent: 8 },
      'tool.quarantined': {
        tool: 'crm_get',
        source: 'mcp/crm@acme',
        reason: 'changed',
        pending_revision: 'r2',
        approved_revision: 'r1',
      },
      'breaker.opened': { key: 'https://api.example', service: 'of the sender', open_until: instant },
      'source.failing': { source: 'mcp/crm@acme', error: 'gone', last_success_at: null },
    };
    const KINDS = Object.keys(DATA) as EventKind[];
    const SENDERS = ['gateway', 'registry', 'budget', 'mcp-executor', 'openapi-executor'];
    const report = (kind: EventKind, service: string): FleetEvent => ({
      kind,
      tenant_id: 'acme',
      at: AT,
      data: kind === 'breaker.opened' ? { ...DATA[kind], service } : DATA[kind],
    });
    const mayReport = (kind: EventKind, service: string) => EVENTS[kind].from.some((one) => one === service);
    let secret: string;
    const connections = new Map<string, NatsClient>();
    const send = (user: string, event: FleetEvent, service = user): Promise<{ stored: number }> =>
      connections.get(user)!.request(eventReportSubject(service), { events: [event] }, { timeoutMs: 30_000 });
    const posted = () => receiver.received.map((one) => receiver.verified(one, secret) as SentEvent);
    beforeAll(async () => {
      const body = { url: `${receiver.origin}/events`, kinds: KINDS };
      const made = await fleet.ask({ path: '/api/v1/webhooks', body });
      expect(made.status, made.text).toBe(201);
      secret = made.body.secret;
      for (const user of SENDERS)
        connections.set(user, await NatsClient.connect({ name: 'spec', ...fleet.nats.loginOf(user)! }));
    });
    afterAll(() => Promise.all([...connections.values()].map((connection) => connection.close())));

    it('of their own kinds, each once and whatever id they send; forged ones of any other kind are refused', async () => {
      for (const user of SENDERS)
        for (const kind of KINDS) {
          const sent = { ...report(kind, user), id: 'evt_00000000000000000000000000000000' };
          if (!mayReport(kind, user)) {
            await expect(send(user, sent), `${kind} of ${user}`).rejects.toMatchObject({ code: 'PERMISSION_DENIED' });
            continue;
          }
          expect(await send(user, sent), `${kind} of ${user}`).toEqual({ stored: 1 });
          expect(await send(user, sent)).toEqual({ stored: 0 });
        }
      const expected = KINDS.flatMap((kind) => SENDERS.filter((user) => mayReport(kind, user)).map(() => kind));
      expect(expected).toHaveLength(6);
      // A real event of a kind that was forged arrives, whatever was tried before it.
      const { status, body } = await fleet.call('calculator', { expression: '40+2' });
      expect(status).toBe(200);
      const ended = ({ type, data }: SentEvent) => type === 'call.finished' && data['call_id'] === body.call_id;
      const reported = () => posted().filter(({ timestamp }) => timestamp === instant);
      await eventually('all arrive', () => posted().some(ended) && reported().length >= expected.length);
      expect(
        reported()
          .map(({ type }) => type)
          .toSorted(),
      ).toEqual(expected.toSorted());
      const ids = posted().map(({ id }) => id);
      expect(new Set(ids).size).toBe(ids.length);
      expect(ids).not.toContain('evt_00000000000000000000000000000000');
    });

    // Subjects of other services are refused by the broker: test/nats-permissions.spec.ts.
    it('not in the name of another service', async () => {
      const forged = send('openapi-executor', report('breaker.opened', 'mcp-executor'));
      await expect(forged).rejects.toMatchObject({ code: 'PERMISSION_DENIED' });
      const { body } = await fleet.process('records').admin('/metrics');
      const counted = [...body.matchAll(/^toolfleet_events_refused_total\{kind="([\w.]+)"\} (\d+)$/gm)];
      expect(Object.fromEntries(counted.map(([, kind, count]) => [kind, Number(count)]))).toEqual(
        Object.fromEntries(
          KINDS.map((kind) => [kind, SENDERS.length - EVENTS[kind].from.length + (kind === 'breaker.opened' ? 1 : 0)]),
        ),
      );
    });
  });

  describe('purges', () => {
    const purge = async (body: object, key = fleet.operatorKey) => {
      const started = await fleet.ask({ path: '/api/v1/purges', body, key });
      if (started.status !== 202) return started;
      let found = started;
      await eventually(
        'the purge has ended',
        async () => {
          found = await fleet.ask({ path: `/api/v1/purges/${started.body.id}`, key });
          return found.body.state === 'done';
        },
        { everyMs: 50 },
      );
      return found;
    };
    /** Keys of Redis that name something, or have it in their content. Records of purges and removed names stay. */
    const naming = async (pattern: RegExp) =>
      Object.entries(await redisContents(fleet.redis.client()))
        .filter(([key]) => !key.startsWith('{purge}:') && key !== '{registry}:changes')
        .filter(([key, { content }]) => pattern.test(key) || pattern.test(content))
        .map(([key]) => key);
    const query = (file: string, sql: string) => {
      const database = new DatabaseSync(join(fleet.folder, file), { readOnly: true });
      const rows = database.prepare(sql).all() as Record<string, unknown>[];
      database.close();
      return rows;
    };
    const ledger = (sql: string) => query('budget.db', sql);
    const recorded = () => JSON.stringify(query('records.db', 'SELECT * FROM call_record'));

    it('are refused without their confirmation, and for callers who may not', async () => {
      const refused = await purge({ tenant_id: 'acme' });
      expect(refused).toMatchObject({ status: 400, body: { code: 'REQUEST_INVALID' } });
      expect(refused.text).toContain('"confirm\\": \\"acme\\"');
      const wrong = { tenant_id: 'acme', user_id: 'ann', confirm: 'acme' };
      expect(await purge(wrong)).toMatchObject({ status: 400 });
      expect(await purge({ tenant_id: 'acme', confirm: 'acme' }, fleet.adminKey)).toMatchObject({ status: 403 });
      expect(await purge({ tenant_id: 'globex', user_id: 'x', dry_run: true }, fleet.adminKey)).toMatchObject({
        status: 403,
      });
      expect(await purge({ tenant_id: 'operator', confirm: 'operator' })).toMatchObject({ status: 400 });
      expect((await fleet.ask({ path: '/api/v1/purges/none', key: fleet.operatorKey })).status).toBe(404);
    });

    it('of a user remove what names the user, and leave the rest of the tenant', async () => {
      const body = { client: 'bobs', user_id: 'bob.smith', tenant_id: 'acme', roles: ['admin'], tier: 'wide' };
      const made = await fleet.ask({ path: '/api/v1/keys', body, key: fleet.operatorKey });
      const key = String(made.body.token);
      const headers = { 'idempotency-key': 'of-bob' };
      const session_id = 'bobs-session';
      expect((await fleet.call('sample_save_note', { text: 'x' }, { key, headers })).status).toBe(200);
      expect((await fleet.call('execute_python', { code: 'x = 1', session_id }, { key })).status).toBe(200);
      for (const by of [key, undefined])
        expect((await fleet.ask({ path: '/tools/select', body: { task: 'run some code' }, key: by })).status).toBe(200);
      expect((await fleet.call('calculator', { expression: '1+1' }, { key, fields: { mode: 'async' } })).status).toBe(
        202,
      );
      const file = { name: 'file_write', arguments: { path: 'a.txt', content: 'x' }, session_id, user_id: 'bob.smith' };
      const write = await nats.request('tool.call.acme', file, { headers: { Authorization: `Bearer ${key}` } });
      expect(write).toMatchObject({ success: true });
      await eventually(
        'the calls are in the ledger',
        () => ledger("SELECT 1 FROM token_usage WHERE user_id = 'bob.smith'").length >= 4,
      );
      await eventually('the calls are recorded', async () => {
        const { text } = await fleet.ask({ path: '/api/v1/calls' });
        return text.split('"user_id":"bob.smith"').length > 4;
      });
      const scope = { tenant_id: 'acme', user_id: 'bob.smith' };
      const counted = await purge({ ...scope, dry_run: true }, fleet.adminKey);
      expect(counted.body.counts).toMatchObject({
        keys: 1,
        async_calls: 1,
        sandbox_sessions: 1,
        files: 1,
        tool_searches: 1,
        call_records: 4,
        ledger_rows: expect.any(Number),
      });
      expect(await naming(/bob\.smith/)).not.toEqual([]);
      const purged = await purge({ ...scope, confirm: 'acme/bob.smith' }, fleet.adminKey);
      expect(purged.body, purged.text).toMatchObject({ error: null, remaining: {} });
      expect(purged.body.counts).toMatchObject({
        keys: 1,
        async_calls: 1,
        sandbox_sessions: 1,
        files: 1,
        call_records: 4,
      });
      expect(await naming(/bob\.smith|of-bob/)).toEqual([]);
      expect(recorded()).not.toMatch(/bob\.smith|of-bob/);
      expect(ledger("SELECT 1 FROM token_usage WHERE user_id = 'bob.smith'")).toEqual([]);
      expect(ledger(`SELECT tenant_id FROM token_usage WHERE user_id = '${purged.body.pseudonym}'`).length).toBe(
        purged.body.counts.ledger_rows,
      );
      expect((await fleet.ask({ path: '/api/v1/keys', key: fleet.operatorKey })).text).not.toContain(made.body.id);
      const last = await fleet.call('calculator', { expression: '1+1' });
      expect(last.status).toBe(200);
      // Calls are recorded a moment after their answer, and a late one would outlast the purge that follows.
      await eventually('the last call is recorded', async () =>
        (await fleet.ask({ path: '/api/v1/calls' })).text.includes(String(last.body.call_id)),
      );
    });

    it('of a tenant leave nothing that names it, and no amount changes', async () => {
      const sum = () => ledger('SELECT count(*) AS calls, sum(micro_usd) AS amount FROM token_usage');
      await eventually('all calls are in the ledger', async () => {
        const { body } = await fleet.ask({ path: '/api/v1/budgets' });
        return body.budgets.every((one: { held_usd?: number }) => !one.held_usd);
      });
      const before = sum();
      const purged = await purge({ tenant_id: 'acme', confirm: 'acme' });
      expect(purged.body, purged.text).toMatchObject({ error: null, remaining: {} });
      for (const kind of ['keys', 'sources', 'definitions', 'journal_records', 'async_calls', 'files', 'call_records'])
        expect(purged.body.counts[kind], kind).toBeGreaterThan(0);
      expect(purged.body.counts.tool_searches).toBeGreaterThan(0);
      expect(await naming(/acme/)).toEqual([]);
      expect(recorded()).not.toContain('acme');
      expect(await readdir(join(fleet.folder, 'workspaces'))).not.toContain('acme');
      expect(ledger("SELECT 1 FROM token_usage WHERE tenant_id = 'acme'")).toEqual([]);
      expect(sum()).toEqual(before);
      const names = ledger(`SELECT DISTINCT user_id FROM token_usage WHERE tenant_id = '${purged.body.pseudonym}'`);
      expect(names).toEqual([{ user_id: purged.body.pseudonym }]);
      expect((await fleet.call('calculator', { expression: '1+1' }, { key: fleet.keys['globex'] })).status).toBe(200);
      expect(fleet.logs()).toMatch(/"audit":.*purge requested/);
      expect(fleet.logs()).toMatch(/"audit":.*purge finished/);
    });
  });

  it('were refused nothing by Redis', async () => {
    expect(await redisRefusals()).toEqual([]);
  });

  it('were refused nothing by NATS', async () => {
    expect(await fleet.nats.refusals()).toEqual([]);
  });

  it('would have been noticed if they had been', async () => {
    const gateway = new Redis(fleet.redis.urlAs('gateway')!);
    await expect(gateway.get('{b:acme}:scopes')).rejects.toThrow('NOPERM');
    expect(await redisRefusals()).toEqual([expect.stringContaining('{b:acme}:scopes')]);
    gateway.disconnect();
    nats.publish('budget.reserve', {});
    await eventually('NATS has logged it', async () => (await fleet.nats.refusals()).length === 1);
  });
});
