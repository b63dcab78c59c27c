import { describe, expect, it } from 'vitest';
import { isPlainId, MAX_ID_LENGTH } from './plain-id.js';

describe('an id', () => {
  it.each(['ann', 'auth0|5f7c', 'ann@example.com', 'Zoë 😀', ' ', 'a'.repeat(MAX_ID_LENGTH)])('may be %j', (text) => {
    expect(isPlainId(text)).toBe(true);
  });

  it.each([
    undefined,
    null,
    7,
    '',
    'a'.repeat(MAX_ID_LENGTH + 1),
    'a\n',
    '\u0000',
    'a\u007f',
    '\u0085',
    'a\u2028b',
    '\ud83d',
  ])('may not be %j', (value) => {
    expect(isPlainId(value)).toBe(false);
  });
});
