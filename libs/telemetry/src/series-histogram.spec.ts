import { Histogram, Registry } from 'prom-client';
import { expect, it } from 'vitest';
import { SeriesHistogram } from './series-histogram.js';

type Made = Histogram<'tool' | 'status'>;

const optionsOf = (registry: Registry) => ({
  name: 'duration',
  help: 'for this test',
  labelNames: ['tool', 'status'] as const,
  buckets: [0.1, 1, 5],
  registers: [registry],
});

/** The text of a histogram after observations in every bucket, with absent and empty labels. */
function textOf(make: (registry: Registry) => Made): Promise<string> {
  const registry = new Registry();
  const histogram = make(registry);
  for (let n = 0; n < 60; n += 1) {
    histogram.observe({ status: 'ok', tool: `t${n % 3}` }, n / 10);
    histogram.observe({ tool: 't1' }, 0.1);
    histogram.observe({ tool: '', status: 'ok' }, 1);
    histogram.observe({ tool: 't1', status: '' }, 7);
    histogram.observe(n / 20);
  }
  return registry.metrics();
}

it('counts as the histogram of prom-client does', async () => {
  const ours = await textOf((registry) => new SeriesHistogram(optionsOf(registry)));
  expect(ours).toBe(await textOf((registry) => new Histogram(optionsOf(registry))));
  expect(ours).toContain('duration_bucket{le="+Inf",status="ok",tool="t1"} 20');
});

it('refuses a label that it does not have, and a value that is not a number', () => {
  const histogram = new SeriesHistogram(optionsOf(new Registry()));
  histogram.observe({ tool: 't1' }, 1);
  expect(() => histogram.observe({ tool: 't1' }, Number.NaN)).toThrow('not a valid number');
  expect(() => histogram.observe({ other: 'x' } as never, 1)).toThrow('"other"');
});
