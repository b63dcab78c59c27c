import { niceCeiling } from './scale.js';
import type { StackedUsage } from './stack-usage.js';

const WIDTH = 720;
const HEIGHT = 240;
const LEFT = 56;
const BOTTOM = 26;
const TOP = 10;
const LINES = 4;
/** Labels below the axis; more would overlap on a phone. */
const MOST_LABELS = 6;

/** Stacked columns, one per day. The figures stand in a table beside it: the drawing is one image to screen readers. */
export function StackedColumns({
  usage,
  label,
  format,
}: {
  usage: StackedUsage;
  label: string;
  format: (value: number) => string;
}) {
  const { days, series } = usage;
  const sums = days.map((_, index) => series.reduce((sum, { values }) => sum + (values[index] ?? 0), 0));
  const top = niceCeiling(Math.max(...sums, 0));
  const step = (WIDTH - LEFT) / days.length;
  const y = (value: number) => HEIGHT - BOTTOM - (value / top) * (HEIGHT - BOTTOM - TOP);
  const every = Math.ceil(days.length / MOST_LABELS);
  return (
    <svg className="chart" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label={label}>
      {Array.from({ length: LINES + 1 }, (_, index) => (top / LINES) * index).map((value) => (
        <g key={value}>
          <line className="grid" x1={LEFT} x2={WIDTH} y1={y(value)} y2={y(value)} />
          <text x={LEFT - 8} y={y(value) + 4} textAnchor="end">
            {format(value)}
          </text>
        </g>
      ))}
      {days.map((day, index) => {
        let base = 0;
        return (
          <g key={day} className="column">
            <title>{`${day}: ${format(sums[index] ?? 0)}`}</title>
            {series.map(({ name, values }, place) => {
              const from = base;
              base += values[index] ?? 0;
              return (
                <rect
                  key={name}
                  className={seriesColor(place)}
                  x={LEFT + index * step + step * 0.12}
                  width={Math.max(1, step * 0.76)}
                  y={y(base)}
                  height={Math.max(0, y(from) - y(base))}
                />
              );
            })}
            {index % every === 0 && (
              <text x={LEFT + (index + 0.5) * step} y={HEIGHT - 8} textAnchor="middle">
                {day.slice(5)}
              </text>
            )}
          </g>
        );
      })}
    </svg>
  );
}

/** Class of the colour of a series; the same in the drawing and its legend. */
export function seriesColor(place: number): string {
  return `s${[4, 2, 3, 5, 6, 1][place % 6] ?? 1}`;
}
