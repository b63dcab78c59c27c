import { describe, expect, it } from 'vitest';
import { readRawCredential, readCredential } from './credential.js';

const refusal = expect.objectContaining({
  code: 'UNAUTHENTICATED',
  message: expect.stringMatching(/^(Malformed|Two) credentials/),
});

describe('credential of a request', () => {
  it.each([
    [['Authorization', 'Bearer abc'], { kind: 'bearer', token: 'abc' }],
    [['authorization', 'bEaReR  abc '], { kind: 'bearer', token: 'abc' }],
    [['X-API-Key', 'abc'], { kind: 'api_key', token: 'abc' }],
    [['x-api-key', ' abc '], { kind: 'api_key', token: 'abc' }],
    [['Host', 'a', 'Accept', '*/*'], undefined],
    [[], undefined],
  ])('%j', (headers, expected) => {
    expect(readRawCredential(headers)).toEqual(expected);
  });

  it.each([
    ['two credentials', ['Authorization', 'Bearer a', 'X-API-Key', 'b']],
    ['the same credential twice', ['Authorization', 'Bearer a', 'X-API-Key', 'a']],
    ['a duplicate Authorization', ['Authorization', 'Bearer a', 'authorization', 'Bearer b']],
    ['a duplicate X-API-Key', ['X-API-Key', 'a', 'X-API-KEY', 'b']],
    ['another scheme', ['Authorization', 'Basic dXNlcjpwYXNz']],
    ['no scheme', ['Authorization', 'abc']],
    ['an empty bearer', ['Authorization', 'Bearer ']],
    ['an empty key', ['X-API-Key', '']],
    ['two tokens in one header', ['Authorization', 'Bearer a, Bearer b']],
    ['two keys joined by a proxy', ['X-API-Key', 'a, b']],
    ['control characters', ['X-API-Key', 'a\u0000b']],
    ['an 8 KB token', ['Authorization', `Bearer ${'a'.repeat(8_192)}`]],
  ])('refuses %s', (_, headers) => {
    expect(() => readRawCredential(headers)).toThrow(refusal);
  });

  it('may be a delegation token long enough for the globs of its caller', () => {
    const token = `tfd_${'a'.repeat(30_000)}`;
    expect(readCredential([`Bearer ${token}`], [])).toEqual({ kind: 'bearer', token });
    expect(() => readCredential([`Bearer ${token}${'a'.repeat(10_000)}`], [])).toThrow(refusal);
  });

  it('reads NATS header values by the same rules', () => {
    expect(readCredential(['Bearer a'], [])).toEqual({ kind: 'bearer', token: 'a' });
    expect(() => readCredential(['Bearer a', 'Bearer a'], [])).toThrow(refusal);
  });
});
