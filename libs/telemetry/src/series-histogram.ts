import { Histogram, type HistogramConfiguration, type LabelValues } from 'prom-client';

/** The counts of a series as prom-client keeps them, each bucket without the smaller ones. */
interface SeriesCounts {
  readonly labels: object;
  sum: number;
  count: number;
  readonly bucketValues: Record<string, number>;
}

const observeAny = Reflect.get(Histogram.prototype, 'observeWithoutExemplar') as (
  labels: object | number,
  value?: number,
) => void;

/**
 * A histogram that finds the series of an observation by the values of its labels. `Histogram` checks, sorts and joins the names and values for
 * each, in nine function calls; here it does so for the first observation of a series only.
 */
export class SeriesHistogram<Label extends string> extends Histogram<Label> {
  readonly #series = new Map<string, SeriesCounts>();
  readonly #labels: readonly Label[];
  readonly #buckets: readonly { bound: number; name: string }[];

  constructor(options: HistogramConfiguration<Label> & { labelNames: readonly Label[]; buckets: readonly number[] }) {
    super(options);
    this.#labels = options.labelNames;
    // As texts, because V8 would write a fraction as text for each look-up.
    this.#buckets = options.buckets.map((bound) => ({ bound, name: String(bound) }));
  }

  /** Of prom-client: what `observe` does. @throws TypeError for a value that is not a number, Error for a label that the metric does not have */
  observeWithoutExemplar(labels: LabelValues<Label> | number, value?: number): void {
    if (typeof labels === 'number' || !Number.isFinite(value)) return observeAny.call(this, labels, value);
    let key = '';
    for (const label of this.#labels) key += labels[label] === undefined ? '\0' : `${labels[label]}\x01`;
    const series = this.#series.get(key);
    if (!series) {
      observeAny.call(this, labels, value);
      const all = Object.values(Reflect.get(this, 'hashMap') as Record<string, SeriesCounts>);
      const made = all.find((one) => one.labels === labels);
      if (made) this.#series.set(key, made);
      return;
    }
    series.sum += value!;
    series.count += 1;
    for (const { bound, name } of this.#buckets) {
      if (value! > bound) continue;
      series.bucketValues[name]! += 1;
      return;
    }
  }
}
