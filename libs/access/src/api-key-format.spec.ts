import { describe, expect, it } from 'vitest';
import { generateKey, parseKey } from './api-key-format.js';

describe('API key form', () => {
  it('is tf_<env>_<id>_<secret>_<crc> and parses back', () => {
    const { token, id, signed } = generateKey('prod');
    expect(token).toMatch(/^tf_prod_[0-9A-Za-z]{8}_[0-9A-Za-z]{43}_[0-9A-Za-z]{6}$/);
    expect(parseKey(token)).toEqual({ id, signed });
  });

  it('parses a key written down by hand: the form never changes', () => {
    const token = 'tf_test_00000000_0000000000000000000000000000000000000000000_2X9xOt';
    expect(parseKey(token)?.id).toBe('00000000');
  });

  it('detects every single-character typo', () => {
    const { token } = generateKey('local');
    for (let i = 0; i < token.length; i++) {
      const typo = token.slice(0, i) + (token[i] === 'x' ? 'y' : 'x') + token.slice(i + 1);
      expect(parseKey(typo)).toBeNull();
    }
  });

  it.each(['', 'tf_', 'tf_prod_short', 'tf_test_00000000_00000_000000', 'tf_PROD_00000000_0_0'])(
    'refuses %j',
    (token) => {
      expect(parseKey(token)).toBeNull();
    },
  );

  it('generates a different id and secret each time', () => {
    const keys = Array.from({ length: 500 }, () => generateKey('local'));
    expect(new Set(keys.map((key) => key.id)).size).toBe(500);
    expect(new Set(keys.map((key) => key.token)).size).toBe(500);
  });

  it('refuses an environment that would not parse back', () => {
    expect(() => generateKey('pro_d')).toThrow(RangeError);
  });
});
