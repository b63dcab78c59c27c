import {
  failedWith,
  succeeded,
  type CallRecord,
  type CallResult,
  type Substituted,
  type Succeeded,
} from '@toolfleet/contracts';
import { SIZES } from '@toolfleet/contracts/subjects';
import { describe, expect, test } from 'vitest';
import { callRecord, renderAnswers } from './batch.js';
import { callBody } from './result.js';

const OUTCOME = {
  output: { n: 1 },
  text: 'one',
  usage: { tokens: 0, microUsd: 4_000 },
  metadata: { source: 'searchapi' },
  timing: { queue_ms: 1.4, wait_ms: 0, execute_ms: 20.6 },
  attempts: 1,
};
const result = (parts: Partial<Omit<Succeeded, 'ok'>> = {}): Succeeded => succeeded({ ...OUTCOME, ...parts });

describe('callBody', () => {
  test('a success', () => {
    expect(callBody('c', result(), 123.4)).toEqual({
      success: true,
      output: { n: 1 },
      text: 'one',
      error: null,
      metadata: {
        source: 'searchapi',
        provenance: 'live',
        attempts: 1,
        timing: { queue_ms: 1, wait_ms: 0, execute_ms: 21 },
      },
      execution_time_ms: 123,
      usage: { tokens: 2_000, cost_usd: 0.004 },
      call_id: 'c',
    });
  });

  test('contains rich content up to a limit; that of a batch shares the limit', () => {
    const picture = { type: 'image', mimeType: 'image/png', data: 'AA==' };
    expect(callBody('c', result({ content: [picture] }), 1).content).toEqual([picture]);
    const large = { ...picture, data: 'A'.repeat(SIZES.toolResult) };
    const body = callBody('c', result({ content: [picture, large] }), 1);
    expect(body).not.toHaveProperty('content');
    expect(body.metadata).toMatchObject({ content_omitted: { blocks: 2, limit: SIZES.toolResult } });
    const item = { id: 'i', name: 'x', arguments: {}, sent: {}, source: {}, fields: {} };
    const half = { ...picture, data: 'A'.repeat(SIZES.toolResult / 2) };
    const answers = [picture, half, half, picture].map((block) => ({
      item,
      callId: 'c',
      outcome: result({ content: [block] }),
      durationMs: 1,
    }));
    const records = renderAnswers(answers, callRecord) as CallRecord[];
    expect(records.map(({ content }) => content)).toEqual([[picture], [half], undefined, [picture]]);
    const texts = records.map((record) => JSON.parse(record.result));
    expect(texts.map(({ metadata, content }) => [metadata.content_omitted?.blocks, content])).toEqual([
      [undefined, undefined],
      [undefined, undefined],
      [1, undefined],
      [undefined, undefined],
    ]);
  });

  test('a failure has its code, a suggestion and whether a retry may help', () => {
    const failure = {
      code: 'ATTEMPT_TIMED_OUT',
      errorType: 'timeout',
      message: "Tool 'x' timed out after 10ms",
      retryable: true,
      retryAfterMs: 500,
    } as const;
    const body = callBody('c', failedWith(failure, { ...OUTCOME, usage: { tokens: 0, microUsd: 0 } }), 10);
    expect(body).toMatchObject({
      success: false,
      error: "Tool 'x' timed out after 10ms",
      usage: { tokens: 100, cost_usd: 0 },
      metadata: {
        code: 'ATTEMPT_TIMED_OUT',
        error_type: 'timeout',
        retryable: true,
        retry_after_ms: 500,
        suggestion: 'Retry later or simplify the request.',
      },
    });
  });

  test.each<[Partial<Succeeded | Substituted>, number]>([
    [{ usage: { tokens: 0, microUsd: 0 } }, 100],
    [{ usage: { tokens: 321, microUsd: 0 } }, 321],
    [{ usage: { tokens: 0, microUsd: 0 }, provenance: 'cache', attempts: 0 }, 0],
    [{ usage: { tokens: 0, microUsd: 0 }, provenance: 'stub' }, 0],
  ])('tokens of %j are %i', (parts, tokens) => {
    expect(callBody('c', { ...result(), ...parts } as CallResult, 1).usage.tokens).toBe(tokens);
  });

  test('truncates text at 6,000 characters', () => {
    expect(callBody('c', result({ text: 'x'.repeat(7_000) }), 1).text).toHaveLength(6_000);
  });
});
