import { expect, it } from 'vitest';
import { dateTime, rate } from './format.js';

it('shows every time of day with 24 hours', () => {
  expect(dateTime('2026-01-31T15:04:00')).toMatch(/15:04$/);
  expect(dateTime('2026-01-31T00:04:00')).toMatch(/00:04$/);
});

it.each([
  [90, 60, '1.5 a minute'],
  [4, 1_440, '4 a day'],
  [30, 1_440, '1.3 an hour'],
  [1, 10_080, '0.14 a day'],
  [0, 60, '0 a day'],
])('shows %d in %d minutes as %s', (amount, minutes, text) => expect(rate(amount, minutes)).toBe(text));
