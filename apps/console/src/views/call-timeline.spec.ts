import { expect, it } from 'vitest';
import type { FinishedCall } from '@toolfleet/client';
import { toTimeline } from './call-timeline.js';

const NO_TIME = { admit_ms: 0, wait_ms: 0, queue_ms: 0, execute_ms: 0, rest_ms: 0 };
const call = (id: string, endedAt: string, ms: number, stages = {}) =>
  ({ call_id: id, ended_at: endedAt, duration_ms: ms, stages: { ...NO_TIME, ...stages } }) as FinishedCall;

it('puts stages one after the other and calls at their times, on one scale', () => {
  const program = call('p', '2026-01-31T12:00:01.000Z', 1_000, { admit_ms: 100, execute_ms: 800, rest_ms: 100 });
  const early = call('early', '2026-01-31T12:00:00.050Z', 100);
  const late = call('late', '2026-01-31T12:00:01.200Z', 500);
  const { stages, made, totalMs } = toTimeline(program, [late, early]);
  expect(stages.map(({ name, startMs, ms }) => [name, startMs, ms])).toEqual([
    ['checks', 0, 100],
    ['tool', 100, 800],
    ['limits, budget, transport', 900, 100],
  ]);
  expect(made.map(({ call: one, startMs, ms }) => [one?.call_id, startMs, ms])).toEqual([
    ['early', 0, 100],
    ['late', 700, 500],
  ]);
  expect(totalMs).toBe(1_200);
});
