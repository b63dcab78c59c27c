import { describe, expect, it } from 'vitest';
import { KeyRing, keyRingFaults } from './key-ring.js';

const OLD = 'old:an-old-key-of-at-least-thirty-two-characters';
const NEW = 'new:a-new-key-of-at-least-thirty-two-characters';

describe('KeyRing', () => {
  it('opens what it sealed in its place, and seals equal texts differently', () => {
    const ring = new KeyRing(NEW);
    const sealed = ring.seal('s3cret ✓', 'grant/1');
    expect(sealed).toMatch(/^new\.[\w-]+$/);
    expect(ring.open(sealed, 'grant/1')).toBe('s3cret ✓');
    expect(ring.seal('s3cret ✓', 'grant/1')).not.toBe(sealed);
    expect(() => ring.open(sealed, 'grant/2')).toThrow('cannot be opened');
    expect(() => ring.open(`${sealed.slice(0, -2)}AA`, 'grant/1')).toThrow('cannot be opened');
  });

  it('opens with every key, seals with the first, and names the key that is missing', () => {
    const before = new KeyRing(OLD).seal('s3cret', 'grant/1');
    const both = new KeyRing(`${NEW}, ${OLD}`);
    expect(both.open(before, 'grant/1')).toBe('s3cret');
    expect(both.seal('s3cret', 'grant/1')).toMatch(/^new\./);
    expect(() => new KeyRing(NEW).open(before, 'grant/1')).toThrow('needs the key "old"');
    // Another key under the id of the old one.
    expect(() => new KeyRing(OLD.replace('an-old', 'another')).open(before, 'grant/1')).toThrow('cannot be opened');
  });

  it.each([
    ['', 'entry 1 must begin with an id'],
    ['no-id-but-a-key-of-at-least-thirty-two-characters', 'entry 1 must begin with an id'],
    [`${NEW},two_words:x`, 'entry 2 must begin with an id'],
    ['a:short', 'the key "a" must have at least 32 characters, has 5'],
    [`${NEW},${NEW}`, 'the id "new" occurs twice'],
  ])('refuses %j without showing a key', (text, message) => {
    const [fault] = keyRingFaults('IDENTITY_SECRET_KEYS', text);
    expect(fault).toMatchObject({ key: 'IDENTITY_SECRET_KEYS', message: expect.stringContaining(message) as string });
    expect(fault!.message).not.toContain('thirty');
    expect(() => new KeyRing(text)).toThrow(RangeError);
  });
});
