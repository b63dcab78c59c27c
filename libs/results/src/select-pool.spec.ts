import { SystemClock } from '@toolfleet/resilience';
import { readSelect } from '@toolfleet/bounded-schema/select';
import { afterAll, describe, expect, it } from 'vitest';
import { SelectPool } from './select-pool.js';

const pool = new SelectPool(new SystemClock());
afterAll(() => pool.stop());
const select = (
  expression: string,
  document: unknown,
  { tenantId = 'acme', signal = new AbortController().signal } = {},
) => pool.select(JSON.stringify(document), readSelect(expression), { tenantId, signal });

describe('evaluation of selections', () => {
  it('selects, and describes a document that does not match', async () => {
    expect(await select('$.a[?@ > 1]', { a: [1, 2, 3] })).toEqual({ value: [2, 3] });
    expect(await select('b', { a: 1 })).toEqual({ value: null, shape: '{a: number}' });
  });

  it('matches patterns in linear time', async () => {
    const words = { words: [`${'a'.repeat(5_000)}!`, 'aaa'] };
    expect(await select("$.words[?match(@, '(a+)+')]", words)).toEqual({ value: ['aaa'] });
    expect(await select("$.words[?search(@, '(a|a)*!')]", words)).toEqual({ value: [words.words[0]] });
  });

  it('keeps a child free for other tenants while one tenant has slow selections', async () => {
    const rows = Array.from({ length: 20_000 }, (_, id) => ({ id, name: `row ${id}` }));
    const over = new AbortController();
    const globex = { tenantId: 'globex', signal: over.signal };
    const slow = Array.from({ length: 4 }, () => select('$.rows[?count($..[?@ == 1]) > 5]', { rows }, globex));
    const ended: string[] = [];
    for (const each of slow) void each.catch(() => ended.push('slow'));
    for (let call = 0; call < 3; call += 1) expect(await select('a', { a: call })).toEqual({ value: call });
    expect(ended.length).toBeLessThan(2); // with both children, two end before another tenant gets one
    over.abort();
    await Promise.allSettled(slow);
  });

  it('ends evaluations that take too much time or memory, and continues', async () => {
    const rows = Array.from({ length: 20_000 }, (_, id) => ({ id, name: `row ${id}` }));
    await expect(select('$.rows[?count($..[?@ == 1]) > 5]', { rows })).rejects.toMatchObject({
      message: expect.stringMatching(/Took longer than 3000 ms/),
    });
    await expect(select(Array(40).fill('[@, @]').join(' | '), { a: 1 })).rejects.toMatchObject({
      message: expect.stringMatching(/Took longer|Needs more than|larger than|ended/),
    });
    await expect(select('sum(rows)', { rows })).rejects.toMatchObject({ code: 'TOOL_ERROR' });
    expect(await select('length(rows)', { rows })).toEqual({ value: 20_000 });
  });
});
