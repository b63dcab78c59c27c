import type { FinishedCall } from '@toolfleet/client';
import { STAGES } from '../ui/meters.js';

/** A part of a call on the common scale of its timeline, milliseconds after the start of the call. */
interface TimelineBar {
  startMs: number;
  ms: number;
}

/** A stage of a call, or a call that its tool made. */
export type TimelineRow = TimelineBar &
  ({ name: string; color: string; call?: undefined } | { call: FinishedCall; name?: undefined; color?: undefined });

/**
 * The stages of a call one after the other, and the calls that its tool made at their real times. The stages are sums: one that occurred
 * in several attempts has one bar. `totalMs` is the scale of all bars.
 */
export function toTimeline(
  call: FinishedCall,
  made: readonly FinishedCall[],
): { stages: TimelineRow[]; made: TimelineRow[]; totalMs: number } {
  let at = 0;
  const stages = STAGES.filter(([key]) => call.stages[key] > 0).map(([key, name, color]): TimelineRow => {
    const ms = call.stages[key];
    at += ms;
    return { name, color, startMs: at - ms, ms };
  });
  const startedAt = startedAtMs(call);
  // Clocks of gateways differ, so a call may seem to begin before the one that made it.
  const calls = made
    .map((one): TimelineRow => ({ call: one, startMs: Math.max(0, startedAtMs(one) - startedAt), ms: one.duration_ms }))
    .toSorted((one, other) => one.startMs - other.startMs);
  const totalMs = Math.max(call.duration_ms, ...[...stages, ...calls].map(({ startMs, ms }) => startMs + ms));
  return { stages, made: calls, totalMs };
}

const startedAtMs = ({ ended_at: endedAt, duration_ms: ms }: FinishedCall): number => Date.parse(endedAt) - ms;
