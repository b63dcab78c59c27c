import type { Principal } from '@toolfleet/contracts';
import { FakeClock } from '@toolfleet/testing';
import { describe, expect, it } from 'vitest';
import { VerifiedCache, VERIFIED_TTL_MS, type Verified } from './verified-cache.js';

const verified = (userId: string): Verified => ({ principal: { tenantId: 't', userId } as Principal });

describe('VerifiedCache', () => {
  it('verifies once for simultaneous uses, and again after its TTL', async () => {
    const clock = new FakeClock();
    const cache = new VerifiedCache(clock);
    let proofs = 0;
    const use = () => cache.verify('key', async () => verified(`${(proofs += 1)}`));
    await Promise.all([use(), use()]);
    expect((await use()).userId).toBe('1');
    clock.advance(VERIFIED_TTL_MS);
    expect((await use()).userId).toBe('2');
  });
});
