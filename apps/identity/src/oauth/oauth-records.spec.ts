/** What anyone can make the authorization server keep is bounded, and what users confirmed stays. */
import { sqliteDialect } from '@toolfleet/database';
import { KeyRing } from '@toolfleet/service';
import { FakeClock } from '@toolfleet/testing';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { openIdentityDb } from '../../spec/identity-db.fixture.js';
import type { IdentityDb } from '../identity-tables.js';
import { OAuthRecords } from './oauth-records.js';

const DAY = 86_400_000;
const MAX = 200;
/** The rows are counted once for a hundred new ones. */
const BOUND = MAX + 100;

describe('records of the authorization server', () => {
  let clock: FakeClock;
  let db: IdentityDb;
  let records: OAuthRecords;
  beforeEach(async () => {
    clock = new FakeClock(Date.now());
    db = await openIdentityDb(sqliteDialect(':memory:'));
    records = new OAuthRecords(db, new KeyRing('k1:an-identity-key-for-tests-0123456789abcdef'), clock, MAX);
  });
  afterEach(() => db.destroy());

  const register = (id: string) => records.of('Client').upsert(id, { client_id: id }, undefined as never);
  const count = async () =>
    Number(
      (
        await db
          .selectFrom('oauth_record')
          .select(({ fn }) => fn.countAll().as('n'))
          .executeTakeFirstOrThrow()
      ).n,
    );

  it('forget the oldest registrations and requests that no user confirmed, and refuse no new one', async () => {
    await register('confirmed');
    await records.confirmClient('confirmed');
    await register('oldest');
    for (let n = 0; n < 2 * BOUND; n += 1) {
      clock.advance(1);
      await register(`client-${n}`);
    }
    expect(await count()).toBeLessThanOrEqual(BOUND + 1);
    expect(await records.find('Client', 'client-599')).toMatchObject({ client_id: 'client-599' });
    expect(await records.find('Client', 'confirmed')).toBeDefined();
    expect(await records.find('Client', 'oldest')).toBeUndefined();
    const requests = records.of('Interaction');
    for (let n = 0; n < 2 * BOUND; n += 1) {
      clock.advance(1);
      await requests.upsert(`request-${n}`, { uid: `request-${n}` }, 600);
    }
    expect(await count()).toBeLessThanOrEqual(2 * BOUND + 1);
    expect(await requests.find('request-599')).toBeDefined();
    clock.advance(600_000);
    await records.forgetEnded();
    expect(await count()).toBeLessThanOrEqual(BOUND + 1);
  });

  it('keep a registration for a day until a user connects it, then for 90 days after each use', async () => {
    await register('abandoned');
    await register('used');
    clock.advance(DAY - 1);
    expect(await records.find('Client', 'abandoned')).toBeDefined();
    await records.confirmClient('used');
    clock.advance(1);
    expect(await records.find('Client', 'abandoned')).toBeUndefined();
    for (let days = 0; days < 200; days += 80) {
      clock.advance(80 * DAY);
      expect(await records.find('Client', 'used')).toBeDefined();
    }
    clock.advance(91 * DAY);
    expect(await records.find('Client', 'used')).toBeUndefined();
  });
});
