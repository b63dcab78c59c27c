import { describe, expect, it } from 'vitest';
import { holdsSealed, isSealed, secretContext, SecretBox } from './secret-box.js';

const KEY = 'a key of at least thirty-two characters';
const CONTEXT = secretContext('openapi', 'github');

describe('SecretBox', () => {
  it('opens what it sealed; the same secret has equal seals in one context only', () => {
    const box = new SecretBox(KEY);
    const sealed = box.seal('s3cret ✓', CONTEXT);
    expect(isSealed(sealed)).toBe(true);
    expect(sealed).not.toContain('s3cret');
    expect(box.seal('s3cret ✓', CONTEXT)).toBe(sealed);
    expect(box.seal('s3cret ✓', secretContext('openapi', 'other'))).not.toBe(sealed);
    expect(box.seal('s3cret ✗', CONTEXT).slice(0, 26)).not.toBe(sealed.slice(0, 26));
    expect(new SecretBox(KEY).open(sealed, CONTEXT)).toBe('s3cret ✓');
    expect(box.open(box.seal('', CONTEXT), CONTEXT)).toBe('');
  });

  it('refuses another key, another context, and every changed byte', () => {
    const box = new SecretBox(KEY);
    const sealed = box.seal('s3cret', CONTEXT);
    expect(() => new SecretBox(`${KEY}!`).open(sealed, CONTEXT)).toThrow('cannot be opened');
    expect(() => box.open(sealed, secretContext('mcp', 'github'))).toThrow('cannot be opened');
    expect(() => box.open(sealed, secretContext('openapi', 'github@acme'))).toThrow('cannot be opened');
    const bytes = Buffer.from(sealed.slice('sealed:v1:'.length), 'base64url');
    for (let at = 0; at < bytes.length; at += 1) {
      const changed = Buffer.from(bytes);
      changed[at] = (changed[at] ?? 0) ^ 1;
      expect(() => box.open(`sealed:v1:${changed.toString('base64url')}`, CONTEXT)).toThrow();
    }
    expect(() => box.open('plain', CONTEXT)).toThrow('not a sealed secret');
    expect(() => box.open('sealed:v1:AAAA', CONTEXT)).toThrow('not a sealed secret');
  });

  it('is found at any depth', () => {
    const sealed = new SecretBox(KEY).seal('s3cret', CONTEXT);
    expect(holdsSealed({ a: [{ b: sealed }] })).toBe(true);
    expect(holdsSealed({ a: ['sealed', null, 7, undefined] })).toBe(false);
  });

  it('refuses a short key', () => {
    expect(() => new SecretBox('short')).toThrow(RangeError);
  });
});
