import { describe, expect, it } from 'vitest';
import { settledAmount } from '../spec/lease-arithmetic.js';

describe('settledAmount', () => {
  it('never takes more money than was leased, and caps tokens only where some were', () => {
    expect(settledAmount({ microUsd: 10, tokens: 0 }, { microUsd: 12, tokens: 7 })).toEqual({
      microUsd: 10,
      tokens: 7,
    });
    expect(settledAmount({ microUsd: 10, tokens: 5 }, { microUsd: 2, tokens: 7 })).toEqual({ microUsd: 2, tokens: 5 });
  });
});
