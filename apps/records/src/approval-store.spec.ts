/** Approvals of calls, on both databases. */
import { mkdtempSync, readFileSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { APPROVAL_TRANSITIONS, type ApprovalState } from '@toolfleet/contracts';
import type { ApprovalAsk, ApprovalPerson, GrantUse, StoredApproval, VotedGrant } from '@toolfleet/contracts/approvals';
import { postgresDialect, sqliteDialect } from '@toolfleet/database';
import { POSTGRES_PROGRAMS, startPostgres, type PostgresServer } from '@toolfleet/testing';
import type { Dialect } from 'kysely';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { RecordedCallStore } from './call-store.js';

const NOON = Date.UTC(2026, 10, 21, 12);
const HOUR = 3_600_000;
const SEAL = 'a-records-key-for-tests-0123456789abcdef';
const SECRET = 'a-secret-argument-of-a-call';

const asked = (callId: string, more: Partial<ApprovalAsk> = {}): ApprovalAsk => ({
  call_id: callId,
  requester: { tenant_id: 'acme', user_id: 'ann', key_id: 'k-ann' },
  acting_user_id: 'ann',
  tool: 'crm_delete',
  revision: 'r1',
  fingerprint: 'f1',
  keyed: false,
  questions: ['Delete it?'],
  rule: {},
  micro_usd: 1_500,
  entry_point: 'http',
  until: NOON + HOUR,
  arguments: { note: SECRET },
  ...more,
});
const parked = (callId: string, more: Partial<ApprovalAsk> = {}) =>
  asked(callId, { request: { callId, toolName: 'crm_delete' }, ...more });
/** A key of a user, whom an operator named. */
const person = (user: string, root = user): ApprovalPerson => ({
  ...{ tenant_id: 'acme', user_id: user, key_id: `k-${user}` },
  person: { tenant_id: 'acme', user_id: root, kind: 'operator' },
});

/** @param newDatabase gives the connections of an empty database; undefined where one process owns it */
function conformance(name: string, newDatabase: () => Promise<{ connect: () => Dialect; isShared?: boolean }>): void {
  describe(`approvals: ${name}`, () => {
    const opened: RecordedCallStore[] = [];
    const open = async ({ seal, connect }: { seal?: string | undefined; connect?: () => Dialect } = { seal: SEAL }) => {
      const store = new RecordedCallStore((connect ?? (await newDatabase()).connect)(), seal);
      await store.open();
      opened.push(store);
      return store.approvals;
    };
    /** The grants of the store that was opened last. */
    const grants = () => opened.at(-1)!.grants;
    afterEach(async () => {
      await Promise.all(opened.splice(0).map((store) => store.close()));
    });
    const decide = (
      approvals: RecordedCallStore['approvals'],
      call_id: string,
      decision: 'approve' | 'reject',
      user: string,
    ) => approvals.decide({ call_id, decision, by: person(user) }, NOON + 1);

    it('run a parked call once after one yes', async () => {
      const approvals = await open();
      const { approval } = await approvals.ask(parked('c1'), NOON);
      expect(approval).toMatchObject({ state: 'pending', parked: true, votes: [], until: NOON + HOUR });
      expect(await approvals.begin('c1', NOON)).toMatchObject({ ended: true });
      expect(await decide(approvals, 'c1', 'approve', 'bob')).toMatchObject({ changed: true, due: true });
      // A double click, and a colleague, later.
      expect(await decide(approvals, 'c1', 'approve', 'bob')).toMatchObject({ changed: false, due: false });
      expect(await decide(approvals, 'c1', 'reject', 'eve')).toMatchObject({ changed: false, due: false });
      const begun = await approvals.begin('c1', NOON + 2);
      expect(begun).toMatchObject({ approval: { state: 'executing' }, request: { callId: 'c1' } });
      expect(await approvals.end({ call_id: 'c1', event: 'end' }, NOON + 3)).toEqual({ changed: true });
      expect(await approvals.end({ call_id: 'c1', event: 'end' }, NOON + 3)).toEqual({ changed: false });
      expect(await approvals.begin('c1', NOON + 4)).toMatchObject({ approval: { state: 'done' }, ended: true });
      expect(await approvals.due(NOON + 24 * HOUR, 10)).toEqual([]);
    });

    it('do not run later than the journal remembers, as after a restored backup', async () => {
      const approvals = await open();
      await approvals.ask(parked('c1'), NOON);
      await decide(approvals, 'c1', 'approve', 'bob');
      await approvals.ask(parked('c2', { until: NOON + 90 * HOUR, fingerprint: 'f2' }), NOON);
      await approvals.decide({ call_id: 'c2', decision: 'approve', by: person('bob') }, NOON + 40 * HOUR);
      const { approval, request } = await approvals.begin('c1', NOON + 25 * HOUR);
      expect({ state: approval?.state, request }).toMatchObject({ state: 'expired', request: { callId: 'c1' } });
      // The time for the decision does not count.
      expect((await approvals.begin('c2', NOON + 41 * HOUR)).approval?.state).toBe('executing');
      // A run that began goes on: the journal is asked whether it may.
      expect((await approvals.begin('c2', NOON + 80 * HOUR)).approval?.state).toBe('executing');
    });

    it('are events once they are asked and decided', async () => {
      const approvals = await open();
      const seen: { kind: string; data: object }[] = [];
      opened.at(-1)!.events.onStored(({ events }) => seen.push(...events.map(({ kind, data }) => ({ kind, data }))));
      await approvals.ask(parked('c1', { until: NOON + HOUR }), NOON);
      await approvals.ask(parked('c1', { until: NOON + HOUR }), NOON);
      await approvals.ask(asked('c2', { ask_key: 'q', until: NOON + 5 }), NOON);
      await approvals.decide({ call_id: 'c1', decision: 'reject', by: person('bob'), note: 'Not this one' }, NOON + 1);
      await decide(approvals, 'c1', 'approve', 'eve');
      await approvals.due(NOON + 6, 10);
      await approvals.ask(parked('c3', { program_id: 'p3', fingerprint: 'f3' }), NOON);
      const call = (call_id: string, approval_id = call_id) => ({
        approval_id,
        call_id,
        tool: expect.any(String),
        user_id: expect.any(String),
      });
      expect(seen.pop()).toEqual({ kind: 'approval.asked', data: expect.objectContaining(call('p3', 'c3')) });
      expect(seen).toEqual([
        { kind: 'approval.asked', data: expect.objectContaining(call('c1')) },
        { kind: 'approval.asked', data: expect.objectContaining(call('c2')) },
        {
          kind: 'approval.decided',
          data: { ...call('c1'), decision: 'rejected', decided_by: ['bob'], note: 'Not this one' },
        },
        { kind: 'approval.decided', data: { ...call('c2'), decision: 'expired', decided_by: [] } },
      ]);
    });

    it('let a parked call end that was rejected, with the reason', async () => {
      const approvals = await open();
      await approvals.ask(parked('c1'), NOON);
      await approvals.decide({ call_id: 'c1', decision: 'reject', by: person('bob'), note: 'Not this one' }, NOON + 1);
      const { approval, request } = await approvals.begin('c1', NOON + 2);
      expect({ state: approval?.state, note: approval?.votes[0]?.note, request }).toMatchObject({
        state: 'rejected',
        note: 'Not this one',
        request: { callId: 'c1' },
      });
      await approvals.end({ call_id: 'c1', event: 'end', code: 'APPROVAL_DECLINED' }, NOON + 3);
      expect((await approvals.show('c1', false)).approval).toMatchObject({
        state: 'rejected',
        code: 'APPROVAL_DECLINED',
      });
    });

    it('need a quorum of different users, each with one vote', async () => {
      const approvals = await open();
      await approvals.ask(parked('c1', { rule: { quorum: 2 } }), NOON);
      expect(await decide(approvals, 'c1', 'approve', 'bob')).toMatchObject({ changed: false, due: false });
      expect(await decide(approvals, 'c1', 'approve', 'bob')).toMatchObject({ approval: { state: 'pending' } });
      const both = await decide(approvals, 'c1', 'approve', 'eve');
      expect(both).toMatchObject({ approval: { state: 'approved' }, changed: true, due: true });
      expect(both.approval?.votes.map((vote) => vote.user_id).toSorted()).toEqual(['bob', 'eve']);
    });

    it('need different persons, whichever users their keys name', async () => {
      const approvals = await open();
      const boss: ApprovalPerson['person'] = { tenant_id: 'acme', user_id: 'boss', kind: 'sign_in' };
      const vote = async (by: ApprovalPerson) => {
        const decided = await approvals.decide({ call_id: 'c1', decision: 'approve', by }, NOON + 1);
        return [decided.approval?.state, decided.approval?.votes.length];
      };
      await approvals.ask(parked('c1', { requester: person('ann', 'amy'), rule: { quorum: 2 } }), NOON);
      for (const user of ['nell', 'olga']) expect(await vote(person(user, 'boss'))).toEqual(['pending', 1]);
      expect(await vote({ tenant_id: 'acme', user_id: 'boss', person: boss })).toEqual(['pending', 1]);
      const { approval } = await approvals.show('c1', false);
      expect(approval).toMatchObject({ requester: person('ann', 'amy'), votes: [{ user_id: 'boss', person: boss }] });
      expect(await vote(person('boss', 'eve'))).toEqual(['approved', 2]);
    });

    it('expire, and are woken until their call has ended', async () => {
      const approvals = await open();
      await approvals.ask(parked('c1', { until: NOON + 5 }), NOON);
      await approvals.ask(asked('c2', { ask_key: 'q', until: NOON + 5 }), NOON);
      await approvals.ask(parked('c3'), NOON);
      expect(await decide(approvals, 'c3', 'approve', 'bob')).toMatchObject({ due: true });
      expect(await approvals.due(NOON + 4, 10)).toEqual([]);
      expect((await approvals.due(NOON + 6, 10)).map((one) => [one.call_id, one.state])).toEqual([['c1', 'expired']]);
      expect((await approvals.show('c2', false)).approval?.state).toBe('expired');
      expect(await approvals.due(NOON + 6, 10)).toEqual([]);
      const later = await approvals.due(NOON + 20_000, 10);
      expect(later.map((one) => one.call_id).toSorted()).toEqual(['c1', 'c3']);
      expect(await decide(approvals, 'c2', 'approve', 'bob')).toMatchObject({ changed: false });
    });

    it('answer a call that is made again', async () => {
      const approvals = await open();
      const again = (callId: string, more: Partial<ApprovalAsk> = {}, now = NOON) =>
        approvals.ask(asked(callId, { ask_key: 'q', keyed: true, ...more }), now);
      await again('c1');
      expect((await again('c2')).approval?.call_id).toBe('c1');
      await expect(again('c3', { fingerprint: 'f2' })).rejects.toMatchObject({ code: 'IDEMPOTENCY_MISMATCH' });
      await decide(approvals, 'c1', 'approve', 'bob');
      expect(await again('c4', {}, NOON + 2)).toMatchObject({
        granted: true,
        approval: { call_id: 'c1', state: 'done' },
      });
      // The journal replays the outcome of its key for a day.
      expect(await again('c5', {}, NOON + 3)).toMatchObject({ granted: true, approval: { call_id: 'c1' } });
      expect(await again('c6', {}, NOON + 25 * HOUR)).toMatchObject({ approval: { call_id: 'c6', state: 'pending' } });
    });

    it('of a program are found by its call, one at a time', async () => {
      const approvals = await open();
      const ofProgram = (id: string, digest: string) =>
        approvals.ask(parked(id, { program_id: 'p1', ask_key: digest, fingerprint: digest, keyed: true }), NOON);
      expect((await ofProgram('a1', 'd1')).approval).toMatchObject({ call_id: 'a1', program_id: 'p1', parked: true });
      // A gateway that took the program over asks the same.
      expect((await ofProgram('a2', 'd1')).approval?.call_id).toBe('a1');
      expect((await approvals.show('p1', false)).approval?.call_id).toBe('a1');
      // Its id is enough while it has asked once.
      expect(await decide(approvals, 'p1', 'approve', 'bob')).toMatchObject({ approval: { call_id: 'a1' }, due: true });
      expect(await ofProgram('a3', 'd1')).toMatchObject({ granted: true, approval: { call_id: 'a1' } });
      expect((await ofProgram('a4', 'd2')).approval).toMatchObject({ call_id: 'a4', state: 'pending' });
      // It asks something else than before, and does not wait for that any more.
      expect((await ofProgram('a5', 'd3')).approval?.call_id).toBe('a5');
      expect((await approvals.show('a4', false)).approval?.state).toBe('invalidated');
      expect(await decide(approvals, 'a4', 'approve', 'bob')).toMatchObject({ changed: false, due: false });
      expect(await decide(approvals, 'p1', 'approve', 'bob')).toEqual({ changed: false, due: false });
      expect((await approvals.due(NOON + 30_000, 10)).map(({ call_id }) => call_id)).toEqual(['a1']);
    });

    it('grant one call of a question without a key, and none of another tool', async () => {
      const approvals = await open();
      const again = (callId: string, more: Partial<ApprovalAsk> = {}) =>
        approvals.ask(asked(callId, { ask_key: 'q', ...more }), NOON + 2);
      await again('c1');
      await decide(approvals, 'c1', 'approve', 'bob');
      expect(await again('c2', { revision: 'r2' })).toMatchObject({ approval: { call_id: 'c2', state: 'pending' } });
      expect((await approvals.show('c1', false)).approval?.state).toBe('invalidated');
      await decide(approvals, 'c2', 'approve', 'bob');
      expect(await again('c3', { revision: 'r2' })).toMatchObject({ granted: true });
      expect(await again('c4', { revision: 'r2' })).toMatchObject({ approval: { call_id: 'c4', state: 'pending' } });
      await decide(approvals, 'c4', 'reject', 'bob');
      expect((await again('c5', { revision: 'r2' })).approval).toMatchObject({ call_id: 'c4', state: 'rejected' });
    });

    it('show arguments on request only, and keep them sealed', async () => {
      const approvals = await open();
      await approvals.ask(asked('c1'), NOON);
      expect((await approvals.show('c1', true)).arguments).toEqual({ note: SECRET });
      expect((await approvals.show('c1', false)).arguments).toBeUndefined();
      expect(JSON.stringify(await approvals.list({ limit: 10 }))).not.toContain(SECRET);
      expect(await approvals.show('other', true)).toEqual({});
    });

    it('are not kept without a key that seals them', async () => {
      const approvals = await open({ seal: undefined });
      expect(await approvals.ask(asked('c1'), NOON)).toEqual({});
    });

    it('are listed by tenant, state and tool, page by page', async () => {
      const approvals = await open();
      const tenant_id = `tenant-${Math.random()}`;
      const requester = { tenant_id, user_id: 'ann' };
      for (const [index, id] of ['a', 'b', 'c', 'd'].entries())
        await approvals.ask(asked(`${tenant_id}-${id}`, { requester, tool: id }), NOON + Math.floor(index / 2));
      const page = await approvals.list({ tenant_id, limit: 3 });
      expect(page.approvals.map((one) => one.tool)).toEqual(['d', 'c', 'b']);
      const rest = await approvals.list({ tenant_id, limit: 3, before: page.next! });
      expect(rest.approvals.map((one) => one.tool)).toEqual(['a']);
      expect((await approvals.list({ tenant_id, states: ['approved'], limit: 3 })).approvals).toEqual([]);
      expect((await approvals.list({ tenant_id, tool: 'b', limit: 3 })).approvals).toHaveLength(1);
    });

    describe('give grants', () => {
      const offer = { for: ['Deletions'], max_s: 7_200, fields: ['note', 'size'], max_uses: 3 };
      const rule = { grant: offer };
      const args = { id: 7, note: SECRET, size: 1 };
      const wanted = { until: NOON + HOUR, fields: ['size'] };
      let calls = 0;
      const use = (more: Partial<GrantUse> = {}): GrantUse => ({
        call_id: `u${(calls += 1)}`,
        use_key: `u${calls}`,
        requester: { tenant_id: 'acme', user_id: 'ann', key_id: 'another' },
        acting_user_id: 'ann',
        tool: 'crm_delete',
        revision: 'r1',
        rule,
        arguments: { ...args, size: calls },
        ...more,
      });
      const give = async (
        approvals: RecordedCallStore['approvals'],
        id: string,
        grant: VotedGrant | undefined,
        more = {},
      ) => {
        await approvals.ask(parked(id, { rule, arguments: args, ...more }), NOON);
        const { approval } = await approvals.decide(
          { call_id: id, decision: 'approve', by: person('bob'), grant },
          NOON,
        );
        return approval?.grant_id;
      };

      it('for the same user, tool, rule and arguments only, until they end', async () => {
        const id = await give(await open(), 'c1', wanted);
        const covered = async (more: Partial<GrantUse>, now = NOON + 1) =>
          (await grants().use(use(more), now)).grant_id === id;
        const requester = { tenant_id: 'acme', user_id: 'joe' };
        const other: Partial<GrantUse>[] = [
          { arguments: { ...args, note: 'another' } },
          { arguments: { ...args, more: 1 } },
          { arguments: { note: SECRET, size: 1 } },
          { requester },
          // Those that gave it, with the name of the user on another key.
          { requester: person('ann', 'bob') },
          { requester: { tenant_id: 'globex', user_id: 'ann' } },
          { acting_user_id: 'joe' },
          { tool: 'crm_find' },
          { revision: 'r2' },
          { rule: {} },
          { rule: { grant: { ...offer, for: ['Other deletions'] } } },
          { rule: { ...rule, quorum: 2 } },
          { rule: { ...rule, roles: [['finance']] } },
          { rule: { ...rule, not_requester: true } },
          { rule: { grant: { ...offer, fields: ['note'] } } },
        ];
        expect(await Promise.all(other.map((more) => covered(more)))).toEqual(other.map(() => false));
        expect(await covered({ rule: { grant: { ...offer, max_s: 60 } } }, NOON + 60_001)).toBe(false);
        expect(await covered({}, NOON + HOUR)).toBe(false);
        expect(await grants().find(id!)).toMatchObject({ uses: 0, until: NOON + HOUR, fields: ['size'] });

        expect(await covered({ arguments: { id: 7, note: SECRET } })).toBe(true);
        // The same call asks again.
        const again = use({ use_key: 'key' });
        expect(await Promise.all([grants().use(again, NOON + 2), grants().use(again, NOON + 2)])).toEqual([
          { grant_id: id },
          { grant_id: id },
        ]);
        const shown = (await grants().find(id!))!;
        expect(shown).toMatchObject({ uses: 2, last_used_at: NOON + 2 });
        const kept = await grants().open(shown);
        expect(kept).toMatchObject({ id: 7, note: SECRET });
        expect(kept).not.toHaveProperty('size');
        expect(await covered({ rule: { grant: { ...offer, max_uses: 2 } } })).toBe(false);

        expect(await grants().revoke(id!, person('eve'), NOON + 3)).toMatchObject({ revoked_at: NOON + 3 });
        expect(await grants().revoke(id!, person('eve'), NOON + 4)).toMatchObject({ revoked_at: NOON + 3 });
        expect(await covered({})).toBe(false);
        expect(await grants().use(again, NOON + 4)).toEqual({});
        const { rows: ended } = await grants().list({ tenant_id: 'acme', ended: true, limit: 100 }, NOON);
        expect(ended.find((one) => one.grant_id === id)).toMatchObject({ revoked_by: { user_id: 'eve' }, uses: 2 });
        expect((await grants().list({ tenant_id: 'acme', limit: 100 }, NOON)).rows).toEqual([]);
      });

      it('if all that agree allow it, and the narrowest', async () => {
        const approvals = await open();
        const two = { rule: { ...rule, quorum: 2 } };
        const vote = async (id: string, first: VotedGrant | undefined, second: VotedGrant | undefined) => {
          await give(approvals, id, first, two);
          return approvals.decide({ call_id: id, decision: 'approve', by: person('eve'), grant: second }, NOON);
        };
        expect((await vote('c1', wanted, undefined)).approval?.grant_id).toBeUndefined();
        expect((await vote('c2', undefined, wanted)).approval?.grant_id).toBeUndefined();
        const wide = { until: NOON + 100 * HOUR, fields: ['note', 'size', 'id'], max_uses: 2 };
        const { approval } = await vote('c3', wide, wide);
        expect(approval?.votes[0]).toMatchObject({ grant: { fields: ['note', 'size', 'id'] } });
        const grant = await grants().find(approval!.grant_id!);
        expect(grant).toMatchObject({ until: NOON + 2 * HOUR, fields: ['note', 'size'], max_uses: 2 });
        expect(grant?.granted_by.map((one) => one.user_id).toSorted()).toEqual(['bob', 'eve']);
        expect(await give(approvals, 'c4', wanted, { rule: {} })).toBeUndefined();
      });

      it('that are counted exactly, by two replicas at once', async () => {
        const { connect, isShared = false } = await newDatabase();
        const id = await give(await open({ seal: SEAL, connect }), 'c1', wanted);
        const stores = [grants()];
        if (isShared) {
          await open({ seal: SEAL, connect });
          stores.push(grants());
        }
        const seen = await Promise.all(
          Array.from({ length: 12 }, (_, n) => stores[n % stores.length]!.use(use(), NOON + 1)),
        );
        expect(seen.filter((one) => one.grant_id === id)).toHaveLength(3);
        expect((await grants().find(id!))?.uses).toBe(3);
      });

      it('that go with their users, those that gave them, and time', async () => {
        const approvals = await open();
        const tenant_id = `granted-${Math.random()}`;
        const of = (user_id: string) => ({ requester: { tenant_id, user_id }, acting_user_id: user_id });
        for (const user of ['ann', 'joe', 'kim']) await give(approvals, `${tenant_id}-${user}`, wanted, of(user));
        const erase = (userId: string, dryRun = false) => grants().eraseOwner({ tenantId: tenant_id, userId }, dryRun);
        expect([await erase('ann', true), await erase('ann'), await erase('ann')]).toEqual([1, 1, 0]);
        await grants().eraseBefore(NOON + HOUR, { only: tenant_id });
        expect((await grants().list({ tenant_id, limit: 9 }, NOON)).rows).toHaveLength(2);
        const page = await grants().list({ tenant_id, limit: 1 }, NOON);
        const rest = await grants().list({ tenant_id, limit: 9, before: page.next! }, NOON);
        expect([...page.rows, ...rest.rows].map((one) => one.user_id).toSorted()).toEqual(['joe', 'kim']);
        await grants().eraseBefore(NOON + HOUR + 1, { only: tenant_id });
        expect((await grants().list({ tenant_id, limit: 9 }, NOON)).rows).toEqual([]);
        await give(approvals, `${tenant_id}-c5`, wanted, of('ann'));
        const boss = { call_id: `${tenant_id}-c6`, decision: 'approve' as const, by: person('nell', 'boss') };
        await approvals.ask(parked(boss.call_id, { rule, arguments: args, ...of('ann') }), NOON);
        expect((await approvals.decide({ ...boss, grant: wanted }, NOON)).approval).toHaveProperty('grant_id');
        expect(await grants().eraseOwner({ tenantId: 'acme', userId: 'boss' }, false)).toBe(1);
        expect(await grants().eraseOwner({ tenantId: 'acme', userId: 'bob' }, false)).toBeGreaterThanOrEqual(1);
        expect((await grants().list({ tenant_id, limit: 9 }, NOON)).rows).toEqual([]);
      });
    });

    it('go with their user, tenant and time', async () => {
      const approvals = await open();
      const tenant_id = `gone-${Math.random()}`;
      const ask = (id: string, user_id: string) =>
        approvals.ask(
          asked(`${tenant_id}-${id}`, { requester: { tenant_id, user_id }, acting_user_id: user_id }),
          NOON,
        );
      await Promise.all([ask('1', 'ann'), ask('2', 'ann'), ask('3', 'bob'), ask('4', 'bob')]);
      expect(await approvals.eraseOwner({ tenantId: tenant_id, userId: 'ann' }, true)).toBe(2);
      expect(await approvals.eraseOwner({ tenantId: tenant_id, userId: 'ann' }, false)).toBe(2);
      const by = {
        ...person('nell', 'boss'),
        tenant_id,
        person: { tenant_id, user_id: 'boss', kind: 'creator' as const },
      };
      const requester = { ...by, user_id: 'joe' };
      await approvals.ask(asked(`${tenant_id}-5`, { requester, rule: { quorum: 2 } }), NOON + 2 * HOUR - 1);
      await approvals.decide({ call_id: `${tenant_id}-5`, decision: 'approve', by }, NOON + 1);
      expect(JSON.stringify(await approvals.show(`${tenant_id}-5`, false))).toContain('boss');
      expect(await approvals.eraseOwner({ tenantId: tenant_id, userId: 'boss' }, false)).toBe(0);
      expect(JSON.stringify(await approvals.show(`${tenant_id}-5`, false))).not.toContain('boss');
      expect(await approvals.eraseOwner({ tenantId: tenant_id, userId: 'joe' }, false)).toBe(1);
      await decide(approvals, `${tenant_id}-3`, 'reject', 'eve');
      await approvals.eraseBefore(NOON + HOUR, { only: tenant_id });
      const left = await approvals.list({ tenant_id, limit: 10 });
      expect(left.approvals.map((one) => one.call_id)).toEqual([`${tenant_id}-4`]);
      expect(await approvals.eraseOwner({ tenantId: tenant_id }, false)).toBe(1);
    });

    it.each([1, 2])('move as the table says, whatever races (seed %i)', async (seed) => {
      const { connect, isShared = false } = await newDatabase();
      const one = await open({ seal: SEAL, connect });
      // PostgreSQL serves two replicas of the service.
      const stores = isShared ? [one, await open({ seal: SEAL, connect })] : [one];
      const random = randomFrom(seed);
      const pick = <T>(values: readonly T[]): T => values[Math.floor(random() * values.length)]!;
      const ids = Array.from({ length: 6 }, (_, index) => `race-${seed}-${index}`);
      for (const [index, id] of ids.entries())
        await one.ask(parked(id, { rule: index % 2 === 0 ? {} : { quorum: 2 }, until: NOON + 40 }), NOON);
      const seen = new Map<string, ApprovalState[]>(ids.map((id) => [id, ['pending']]));
      const approvedBy = new Map<string, number>();
      const note = (approval: StoredApproval | undefined) => {
        if (!approval) return;
        seen.get(approval.call_id)!.push(approval.state);
        if (approval.state === 'executing') approvedBy.set(approval.call_id, approval.votes.length);
      };
      for (let now = NOON; now < NOON + 60; now += 1) {
        const steps = Array.from({ length: 4 }, async () => {
          const [store, id] = [pick(stores), pick(ids)];
          const by = person(pick(['bob', 'eve', 'joe']));
          const decision = pick(['approve', 'approve', 'approve', 'reject', 'cancel'] as const);
          const event = pick(['end', 'end', 'invalidate'] as const);
          switch (pick(['decide', 'decide', 'begin', 'end', 'due'])) {
            case 'decide':
              return note((await store.decide({ call_id: id, decision, by }, now)).approval);
            case 'begin':
              return note((await store.begin(id, now)).approval);
            case 'end':
              // Only a worker that has begun a call ends it.
              if (!seen.get(id)!.includes('executing')) return;
              await store.end({ call_id: id, event }, now);
              return note((await store.show(id, false)).approval);
            default:
              for (const approval of await store.due(now, 10)) note(approval);
          }
        });
        await Promise.all(steps);
      }
      for (const [id, states] of seen) {
        expect(new Set(states.filter(isOver)).size, `${id}: ${states.join(' ')}`).toBeLessThanOrEqual(1);
        const { approval } = await one.show(id, false);
        const ran = states.includes('executing');
        if (ran) expect(['executing', 'done', 'invalidated']).toContain(approval!.state);
        if (ran) expect(approvedBy.get(id)).toBeGreaterThanOrEqual(approval!.rule.quorum ?? 1);
        if (['rejected', 'expired', 'cancelled'].includes(approval!.state)) expect(ran).toBe(false);
      }
    });
  });
}

/** Whether no event leads out of a state. */
const isOver = (state: ApprovalState): boolean =>
  Object.values(APPROVAL_TRANSITIONS).every(({ from }) => !from.includes(state));

/** Pseudo-random numbers from 0 to 1 (mulberry32, public domain). */
function randomFrom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}

conformance('SQLite', async () => ({ connect: () => sqliteDialect(':memory:') }));

describe('on disk', () => {
  it('no argument is readable', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'toolfleet-approvals-'));
    const store = new RecordedCallStore(sqliteDialect(join(folder, 'records.db')), SEAL);
    await store.open();
    await store.approvals.ask(parked('c1', { request: { note: SECRET } }), NOON);
    await store.close();
    const bytes = readdirSync(folder).map((file) => readFileSync(join(folder, file), 'latin1'));
    expect(bytes.join('')).not.toContain(SECRET);
    rmSync(folder, { recursive: true });
  });
});

describe.skipIf(!POSTGRES_PROGRAMS)('on PostgreSQL (needs postgres)', () => {
  let server: PostgresServer;
  beforeAll(async () => {
    server = await startPostgres();
  });
  afterAll(() => server?.stop());
  let databases = 0;
  conformance('PostgreSQL', async () => {
    const url = await server.createDatabase(`approvals_${(databases += 1)}`);
    return { connect: () => postgresDialect(url), isShared: true };
  });
});
