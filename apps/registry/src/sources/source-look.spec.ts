import { expect, test } from 'vitest';
import { summarizeRefusals, toLookState } from './source-look.js';

const refused = (code: string, count: number, message: string) =>
  Array.from({ length: count }, (_, index) => ({ name: `op${index}`, code, message }));

test('refusals are counted by their cause, the most frequent first', () => {
  const all = [...refused('REMOTE_REF', 1, 'a remote reference'), ...refused('EGRESS', 8, 'allow the host')];
  const summary = '9 refused: 8 × allow the host; 1 × a remote reference';
  expect(summarizeRefusals(all)).toBe(summary);
  expect(toLookState([], all)).toMatchObject({ state: 'failed', error: summary });
  expect(toLookState([], refused('EGRESS', 1, 'allow the host'))).toMatchObject({ error: 'allow the host' });
  expect(summarizeRefusals([])).toBe('');
});
