import { describe, expect, it } from 'vitest';
import { leaseSize, TokenLeases } from './token-lease.js';

describe('token leases', () => {
  it('exist for large limits only', () => {
    expect([1, 60, 1_000, 1_199, 1_200, 6_000, 1_000_000_000].map(leaseSize)).toEqual([1, 1, 1, 1, 2, 10, 64]);
  });

  it('grant each token once, and none after a second', () => {
    const leases = new TokenLeases<string>();
    expect(leases.use('a', 0)).toBeUndefined();
    leases.keep('a', 2, 'reply', 0);
    leases.keep('b', 1, 'other', 0);
    leases.keep('c', 0, 'nothing', 0);
    expect(leases.use('a', 999)).toEqual({ reply: 'reply', left: 1 });
    expect(leases.use('a', 999)).toEqual({ reply: 'reply', left: 0 });
    expect(leases.use('a', 999)).toBeUndefined();
    expect(leases.use('b', 1_000)).toBeUndefined();
    expect(leases.use('c', 0)).toBeUndefined();
  });
});
