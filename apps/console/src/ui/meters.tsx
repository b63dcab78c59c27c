import type { CallStages } from '@toolfleet/client';
import { duration } from '../format.js';

/** Meters from this share on are shown as high. */
const HIGH = 0.9;

/** Used and held shares of a total. The figures are shown as text next to it. */
export function Meter({ used, held = 0, total, label }: { used: number; held?: number; total: number; label: string }) {
  const share = total > 0 ? Math.min(1, used / total) : 0;
  const heldShare = total > 0 ? Math.min(1 - share, held / total) : 0;
  return (
    <svg
      className="meter"
      viewBox="0 0 100 10"
      preserveAspectRatio="none"
      role="img"
      aria-label={`${label}: ${Math.round((share + heldShare) * 100)} %`}
    >
      <rect className="track" width="100" height="10" />
      <rect className={share >= HIGH ? 'used high' : 'used'} width={share * 100} height="10" />
      <rect className="held" x={share * 100} width={heldShare * 100} height="10" />
    </svg>
  );
}

interface LimitProps {
  text: string;
  /** Of the limit, in words. */
  limit: string;
  label: string;
  used: number;
  held?: number;
  /** Null without a limit. */
  total: number | null;
}

/** Usage of a limit, in words and as a meter. */
export const LimitMeter = ({ text, limit, total, ...meter }: LimitProps) => (
  <div className="stack tight">
    <span className="row spread small">
      <span>{text}</span>
      <span className="numbers">{limit}</span>
    </span>
    {total !== null && <Meter total={total} {...meter} />}
  </div>
);

/** Stages of a call in their order, with names and colors. */
export const STAGES = [
  ['admit_ms', 'checks', 's3'],
  ['wait_ms', 'waiting', 's2'],
  ['queue_ms', 'queue', 's6'],
  ['execute_ms', 'tool', 's4'],
  ['rest_ms', 'limits, budget, transport', 's1'],
] as const;

/** Time of a call by stage, as a bar and optionally a legend. The bar fills its place for `scaleMs`, by default its own time. */
export function Stages({
  stages,
  withLegend = false,
  scaleMs,
}: {
  stages: CallStages;
  withLegend?: boolean;
  scaleMs?: number;
}) {
  const shown = STAGES.filter(([key]) => stages[key] > 0);
  const total = scaleMs || shown.reduce((sum, [key]) => sum + stages[key], 0) || 1;
  let at = 0;
  return (
    <div className="stack tight">
      <svg
        className="stages"
        viewBox="0 0 100 10"
        preserveAspectRatio="none"
        role="img"
        aria-label={shown.map(([key, name]) => `${name} ${duration(stages[key])}`).join(', ') || 'no time'}
      >
        {shown.map(([key, , color]) => {
          const width = (stages[key] / total) * 100;
          at += width;
          return <rect key={key} className={color} x={at - width} width={Math.max(0.6, width)} height="10" />;
        })}
      </svg>
      {withLegend && (
        <ul className="legend">
          {shown.map(([key, name, color]) => (
            <li key={key}>
              <span className={`dot ${color}`} />
              {name} {duration(stages[key])}
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}
