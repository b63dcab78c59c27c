import { niceCeiling, type StackedUsage } from './stack-usage.js';
import { useEffect, useRef, useState, type RefObject } from 'react';

/** Width before the first layout. */
const FIRST_WIDTH = 720;
const HEIGHT = 240;
const LEFT = 56;
const BOTTOM = 26;
const TOP = 10;
const LINES = 4;
/** Width of a label below the axis. */
const LABEL_WIDTH = 64;

/** Stacked columns, one per day. For screen readers it is one image: the page has the figures in a table as well. */
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
  const [drawing, width] = useWidth<SVGSVGElement>(FIRST_WIDTH);
  const columns = days.map((_, index) => series.map(({ values }) => values[index] ?? 0));
  const sums = columns.map((values) => values.reduce((sum, value) => sum + value, 0));
  const top = niceCeiling(Math.max(...sums, 0));
  const step = (width - LEFT) / days.length;
  const y = (value: number) => HEIGHT - BOTTOM - (value / top) * (HEIGHT - BOTTOM - TOP);
  const every = Math.max(1, Math.ceil(LABEL_WIDTH / step));
  return (
    <svg ref={drawing} className="chart" viewBox={`0 0 ${width} ${HEIGHT}`} role="img" aria-label={label}>
      {Array.from({ length: LINES + 1 }, (_, index) => (top / LINES) * index).map((value) => (
        <g key={value}>
          <line className="grid" x1={LEFT} x2={width} y1={y(value)} y2={y(value)} />
          <text x={LEFT - 8} y={y(value) + 4} textAnchor="end">
            {format(value)}
          </text>
        </g>
      ))}
      {days.map((day, index) => (
        <g key={day} className="column">
          <title>{`${day}: ${format(sums[index] ?? 0)}`}</title>
          <Stack values={columns[index] ?? []} left={LEFT + index * step} step={step} y={y} />
          {index % every === 0 && (
            <text x={LEFT + (index + 0.5) * step} y={HEIGHT - 8} textAnchor="middle">
              {day.slice(5)}
            </text>
          )}
        </g>
      ))}
    </svg>
  );
}

/** The values of a day on top of each other. */
function Stack(props: { values: readonly number[]; left: number; step: number; y: (value: number) => number }) {
  const { values, left, step, y } = props;
  let base = 0;
  return values.map((value, place) => {
    const from = base;
    base += value;
    return (
      <rect
        key={place}
        className={seriesColor(place)}
        x={left + step * 0.12}
        width={Math.max(1, step * 0.76)}
        y={y(base)}
        height={Math.max(0, y(from) - y(base))}
      />
    );
  });
}

/** CSS class for the color of a series, in the chart and its legend. */
export function seriesColor(place: number): string {
  return `s${[4, 2, 3, 5, 6, 1][place % 6] ?? 1}`;
}

/** Current width of an element in CSS pixels; `initial` before the first layout. */
function useWidth<E extends Element>(initial: number): [RefObject<E | null>, number] {
  const element = useRef<E>(null);
  const [width, setWidth] = useState(initial);
  useEffect(() => {
    if (!element.current) return undefined;
    const observer = new ResizeObserver(
      ([entry]) => entry && setWidth(Math.max(1, Math.round(entry.contentRect.width))),
    );
    observer.observe(element.current);
    return () => observer.disconnect();
  }, []);
  return [element, width];
}
