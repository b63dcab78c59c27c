import type { CallStages } from '@toolfleet/client';
import { duration } from '../format.js';

const STAGES = [
  ['admit_ms', 'checks', 's3'],
  ['wait_ms', 'waiting', 's2'],
  ['queue_ms', 'queue', 's6'],
  ['execute_ms', 'tool', 's4'],
  ['rest_ms', 'limits, budget, transport', 's1'],
] as const;

/** Where the time of a call went: a bar, and the same in words. */
export function Stages({ stages, withLegend = false }: { stages: CallStages; withLegend?: boolean }) {
  const shown = STAGES.filter(([key]) => stages[key] > 0);
  const total = shown.reduce((sum, [key]) => sum + stages[key], 0) || 1;
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
