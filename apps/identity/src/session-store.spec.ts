/** The store of sign-in sessions on both databases. */
import { createHash } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { postgresDialect, sqliteDialect } from '@toolfleet/database';
import { SystemClock } from '@toolfleet/resilience';
import { KeyRing } from '@toolfleet/service';
import { FakeClock, POSTGRES_PROGRAMS, startPostgres, type PostgresServer } from '@toolfleet/testing';
import type { Dialect } from 'kysely';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openIdentityDb } from '../spec/identity-db.fixture.js';
import type { IdentityDb } from './identity-tables.js';
import { UserGrantStore } from './user-grant-store.js';
import { KeyChange } from './reseal.js';
import { SessionStore, type NewSession } from './session-store.js';
import { SignInTokens } from './sign-in-tokens.js';

const NOON = Date.UTC(2026, 10, 21, 12);
const HOUR = 3_600_000;
const KEYS = new KeyRing('k1:an-identity-key-for-tests-0123456789abcdef');
const ID_TOKEN = 'header.an-id-token-of-the-provider.signature';
const ISSUER = 'https://login.example.com';

const digestOf = (secret: string) => createHash('sha256').update(secret).digest('base64url');
const session = (secret: string, more: Partial<NewSession> = {}): NewSession => ({
  digest: digestOf(secret),
  tenant_id: 'acme',
  user_id: 'ann',
  roles: ['member'],
  groups: ['staff'],
  expires_at: NOON + HOUR,
  ...more,
});

const clock = new FakeClock(NOON);
const signInTokens = (keys: KeyRing, db: IdentityDb) =>
  new SignInTokens(new UserGrantStore(db, keys), clock, ISSUER, true);

function conformance(name: string, open: () => Promise<{ dialect: Dialect; close(): Promise<void> }>): void {
  describe(`store of sessions: ${name}`, () => {
    let db: IdentityDb;
    let store: SessionStore;
    let tokens: SignInTokens;
    let close: () => Promise<void>;
    beforeAll(async () => {
      const { dialect, ...opened } = await open();
      close = opened.close;
      db = await openIdentityDb(dialect);
      store = new SessionStore(db);
      tokens = signInTokens(KEYS, db);
    });
    afterAll(async () => {
      await db?.destroy();
      await close?.();
    });

    it('gives a session by its digest until it expires', async () => {
      const provider = { issuer: ISSUER, subject: 'ann@example.com', sid: 's-1' };
      const session_id = await store.create(session('one', { provider }), NOON);
      const found = await store.get(digestOf('one'), NOON + HOUR - 1);
      expect(found).toEqual({
        session_id,
        tenant_id: 'acme',
        user_id: 'ann',
        roles: ['member'],
        groups: ['staff'],
        created_at: NOON,
        expires_at: NOON + HOUR,
        provider,
      });
      expect(await store.get(digestOf('one'), NOON + HOUR)).toBeUndefined();
      expect(await store.get(digestOf('two'), NOON)).toBeUndefined();
      await expect(store.create(session('one'), NOON)).rejects.toMatchObject({ code: 'REQUEST_INVALID' });
    });

    it('revokes by digest once', async () => {
      const session_id = await store.create(session('out', { user_id: 'out' }), NOON);
      const scope = { digest: digestOf('out') };
      expect(await store.revoke(scope, NOON)).toMatchObject({ revoked: 1, ended: [{ session_id, user_id: 'out' }] });
      expect(await store.get(digestOf('out'), NOON)).toBeUndefined();
      expect(await store.revoke(scope, NOON)).toMatchObject({ revoked: 0 });
    });

    it('revokes those of a user, of a session and of a subject at the provider, and no other', async () => {
      const at = (sid: string, subject: string) => ({ provider: { issuer: ISSUER, subject, sid } });
      const id = await store.create(session('a', { tenant_id: 'revoked', ...at('s-a', 'bob') }), NOON);
      await store.create(session('b', { tenant_id: 'revoked', ...at('s-b', 'bob') }), NOON + 1);
      await store.create(session('c', { tenant_id: 'revoked', user_id: 'cem', ...at('s-c', 'cem') }), NOON + 2);
      await store.create(session('d', { tenant_id: 'other', user_id: 'cem', ...at('s-d', 'cem') }), NOON + 3);
      const left = async () =>
        (await store.list({ tenant_id: 'revoked' }, NOON)).map(({ provider }) => provider?.sid ?? '');
      expect(await left()).toEqual(['s-c', 's-b', 's-a']);
      expect(await store.revoke({ tenant_id: 'globex', session_id: id }, NOON)).toMatchObject({ revoked: 0 });
      expect(await store.revoke({ tenant_id: 'revoked', session_id: id }, NOON)).toMatchObject({ revoked: 1 });
      expect(await left()).toEqual(['s-c', 's-b']);
      expect(await store.revoke({ issuer: ISSUER, sid: 's-b' }, NOON)).toMatchObject({ revoked: 1 });
      expect(await store.revoke({ tenant_id: 'revoked', user_id: 'cem' }, NOON)).toMatchObject({ revoked: 1 });
      expect(await left()).toEqual([]);
      expect(await store.revoke({ issuer: ISSUER, subject: 'cem' }, NOON)).toMatchObject({ revoked: 1 });
    });

    it('gives each question about a due session to one replica, and its answer to all sessions of the user', async () => {
      const provider = { issuer: ISSUER, subject: 'dee' };
      const of = { tenant_id: 'asked', user_id: 'dee', provider };
      const due = await store.create(session('due', { ...of, ask_at: NOON + 10 }), NOON);
      const later = await store.create(session('later', { ...of, ask_at: NOON + 99 }), NOON);
      const ids = async (at: number) => (await store.due(at, 100)).map(({ session_id: id }) => id);
      expect([await ids(NOON + 9), await ids(NOON + 10)]).toEqual([[], [due]]);
      const takes = await Promise.all([1, 2, 3].map(() => store.take(due, NOON + 10, NOON + 20)));
      expect(takes.filter(Boolean)).toEqual([true]);
      await store.answered(due, { ...of, roles: ['approver'], groups: ['g'] }, NOON + 12, NOON + 50);
      for (const id of [due, later])
        expect(await store.read(id, NOON)).toMatchObject({ roles: ['approver'], groups: ['g'] });
      expect((await store.read(due, NOON))?.asked_at).toBe(NOON + 12);
      expect((await store.read(later, NOON))?.asked_at).toBe(NOON);
      await store.hasten(of, NOON + 15);
      expect(await ids(NOON + 15)).toEqual(expect.arrayContaining([due, later]));
      await store.bound(HOUR / 2, due);
      expect(await store.read(due, NOON)).toMatchObject({ expires_at: NOON + HOUR / 2 });
      expect(await ids(NOON + 15)).toEqual([later]);
    });

    it.each([[{}], [{ tenant_id: 'acme' }], [{ issuer: ISSUER }], [{ user_id: 'ann' }]])(
      'refuses to revoke by %j alone',
      async (scope) => {
        await expect(store.revoke(scope, NOON)).rejects.toMatchObject({ code: 'REQUEST_INVALID' });
      },
    );

    it('seals everything with a new first key again, after which the old one can be removed', async () => {
      const sealed = { session_id: 'sealed', tenant_id: 'acme', user_id: 'sea' };
      await tokens.keep('sealed', { tenantId: 'acme', userId: 'sea' }, { access_token: 'a', id_token: ID_TOKEN });
      const next = 'k2:the-next-identity-key-0123456789abcdefghi';
      const ring = new KeyRing(`${next},k1:an-identity-key-for-tests-0123456789abcdef`);
      const change = new KeyChange(db, ring, new SystemClock(), 10_000);
      expect(await change.reseal()).toEqual({ resealed: 1, left: 0 });
      expect(await change.reseal()).toEqual({ resealed: 0, left: 0 });
      const alone = signInTokens(new KeyRing(next), db);
      expect((await alone.of(sealed))?.secrets.id_token).toBe(ID_TOKEN);
      await alone.forgetUser(sealed);
      expect(await alone.of(sealed)).toBeUndefined();
    });

    it('keeps the tokens of each sign-in while its session lasts', async () => {
      const user = { tenantId: 'acme', userId: 'kim' };
      const of = { tenant_id: 'acme', user_id: 'kim' };
      for (const session_id of ['k1', 'k2']) {
        await tokens.keep(session_id, user, { access_token: session_id });
        await store.create(session(session_id, { ...of, session_id }), NOON);
        clock.advance(1);
      }
      expect((await tokens.find(of))?.secrets.access_token).toBe('k2');
      await store.revoke({ tenant_id: 'acme', session_id: 'k2' }, NOON);
      await tokens.keep('k3', user, { access_token: 'of a consent that never came' });
      await tokens.forgetEnded(clock.now() + 1);
      const left = await Promise.all(['k1', 'k2', 'k3'].map((session_id) => tokens.of({ ...of, session_id })));
      expect(left.map((grant) => grant?.secrets.access_token)).toEqual(['k1', undefined, undefined]);
    });

    it('counts, then deletes those of a user or tenant; deletes ended ones', async () => {
      for (const [secret, user_id] of [['p1', 'ann'] as const, ['p2', 'ann'] as const, ['p3', 'bob'] as const])
        await store.create(session(secret, { tenant_id: 'purged', user_id }), NOON);
      expect(await store.purge('purged', 'ann', true)).toBe(2);
      expect(await store.purge('purged', 'ann', false)).toBe(2);
      expect(await store.list({ tenant_id: 'purged' }, NOON)).toHaveLength(1);
      expect(await store.purge('purged', undefined, false)).toBe(1);
      const id = await store.create(session('ended', { tenant_id: 'ended' }), NOON);
      await store.create(session('lives', { tenant_id: 'ended' }), NOON);
      await store.revoke({ tenant_id: 'ended', session_id: id }, NOON);
      await store.forgetEnded(NOON + 1);
      expect(await store.purge('ended', undefined, true)).toBe(1);
      await store.forgetEnded(NOON + HOUR + 1);
      expect(await store.purge('ended', undefined, true)).toBe(0);
    });
  });
}

describe('on SQLite', () => {
  let folder: string;
  conformance('SQLite', async () => {
    folder = mkdtempSync(join(tmpdir(), 'identity-'));
    return { dialect: sqliteDialect(join(folder, 'identity.db')), close: async () => undefined };
  });
  afterAll(() => {
    const bytes = readFileSync(join(folder, 'identity.db'));
    expect(bytes.includes('s-1')).toBe(true);
    expect(bytes.includes(ID_TOKEN)).toBe(false);
    rmSync(folder, { recursive: true });
  });
});

describe.skipIf(!POSTGRES_PROGRAMS)('on PostgreSQL', () => {
  conformance('PostgreSQL', async () => {
    const server: PostgresServer = await startPostgres();
    return { dialect: postgresDialect(await server.createDatabase('identity')), close: () => server.stop() };
  });
});
