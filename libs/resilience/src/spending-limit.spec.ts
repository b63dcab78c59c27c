import { describe, expect, it } from 'vitest';
import { checkLimit, isOver, noCounters, reachedShares } from './spending-limit.js';

describe('isOver', () => {
  it.each([
    // limit, used, ask, refused
    [100, 0, 100, false],
    [100, 0, 101, true],
    [100, 99, 1, false],
    [100, 99, 2, true],
    [100, 100, 0, true], // free calls stop at the limit too
    [100, 99, 0, false],
    [0, 0, 0, true], // a limit of 0 lets nothing run
    [null, 1_000_000, 1_000_000, false],
  ])('limit %s, used %s, ask %s', (limit, used, ask, refused) => {
    expect(isOver(limit, used, ask)).toBe(refused);
  });
});

describe('checkLimit', () => {
  it('counts what is spent and what is held, money before tokens', () => {
    const counters = { ...noCounters(), spentMicroUsd: 4, heldMicroUsd: 3, spentTokens: 5, heldTokens: 5 };
    const limit = { microUsd: 10, tokens: 10 };
    expect(checkLimit(limit, counters, { microUsd: 4, tokens: 0 })).toEqual({
      code: 'BUDGET_EXCEEDED',
      limit: 10,
      used: 7,
    });
    expect(checkLimit(limit, counters, { microUsd: 3, tokens: 0 })).toEqual({
      code: 'TOKEN_LIMIT_EXCEEDED',
      limit: 10,
      used: 10,
    });
    expect(checkLimit({ microUsd: 10, tokens: null }, counters, { microUsd: 3, tokens: 9 })).toBeNull();
  });
});

describe('reachedShares', () => {
  it('has each share in the one step that reaches it', () => {
    const steps = [0, 50, 79, 80, 90, 100];
    const crossed = steps.slice(1).map((after, index) => reachedShares(100, steps[index] ?? 0, after));
    expect(crossed).toEqual([[], [], ['80'], [], ['100']]);
    expect(reachedShares(100, 0, 250)).toEqual(['80', '100']);
    expect(reachedShares(null, 0, 100)).toEqual([]);
    expect(reachedShares(0, 0, 100)).toEqual([]);
  });
});
