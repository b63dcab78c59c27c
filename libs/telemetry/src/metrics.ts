import { Counter, Gauge, Registry, collectDefaultMetrics, type Histogram } from 'prom-client';
import { METRICS, type MetricEntry } from './metric-catalogue.js';
import { SeriesHistogram } from './series-histogram.js';

/** Property names of the catalogue. */
type MetricKey = keyof typeof METRICS;
type Labels<K extends MetricKey> = (typeof METRICS)[K]['labels'][number];
type Metric<K extends MetricKey> = (typeof METRICS)[K]['type'] extends 'counter'
  ? Counter<Labels<K>>
  : (typeof METRICS)[K]['type'] extends 'gauge'
    ? Gauge<Labels<K>>
    : Histogram<Labels<K>>;
type Catalogue = { readonly [K in MetricKey]: Metric<K> };

/** The metrics of one process: the catalogue by property name, and its registry. */
export type Metrics = Catalogue & {
  readonly registry: Registry;
  /** Calls `refresh` before each scrape, for gauges that are cheaper to read than to keep. A failure leaves the old value. */
  onScrape(refresh: () => void | Promise<void>): void;
  /** Prometheus text of everything, refreshed. */
  scrape(): Promise<string>;
};

/** Labels of `toolfleet_build_info`. */
interface BuildInfo {
  version: string;
  revision: string;
}

/**
 * Creates the metrics of a process. A metric is registered at its first use, so that `/metrics` of a service shows only metrics that this service
 * measures. `defaults` adds the process and event-loop metrics of Node.
 */
export function createMetrics(build: BuildInfo, options: { defaults?: boolean } = {}): Metrics {
  const registry = new Registry();
  const refreshers: (() => void | Promise<void>)[] = [];
  const metrics: Record<string, unknown> = {
    registry,
    onScrape: (refresh: () => void | Promise<void>) => void refreshers.push(refresh),
    scrape: async () => {
      await Promise.allSettled(refreshers.map(async (refresh) => refresh()));
      return registry.metrics();
    },
  };
  for (const [key, definition] of Object.entries(METRICS)) {
    Object.defineProperty(metrics, key, {
      enumerable: true,
      configurable: true,
      get() {
        const made = make(definition, registry);
        Object.defineProperty(metrics, key, { value: made, enumerable: true });
        return made;
      },
    });
  }
  const typed = metrics as unknown as Metrics;
  typed.buildInfo.set({ version: build.version, revision: build.revision }, 1);
  if (options.defaults) collectDefaultMetrics({ register: registry });
  return typed;
}

function make(definition: MetricEntry, registry: Registry): unknown {
  const options = {
    name: definition.name,
    help: definition.help,
    labelNames: [...definition.labels],
    registers: [registry],
  };
  if (definition.type === 'histogram') return new SeriesHistogram({ ...options, buckets: [...definition.buckets] });
  return definition.type === 'counter' ? new Counter(options) : new Gauge(options);
}

/** Label value for everything beyond the bound or not in the registry. */
export const OTHER_LABEL = 'other';

/**
 * Bounds the number of values of one label: the first `max` distinct values pass, later ones become `other`. Label values come from the
 * registry; this also protects Prometheus from a hostile list of names.
 */
export class BoundedLabel {
  readonly #seen = new Set<string>();

  constructor(private readonly max: number) {}

  /** `value` itself, or `other`. */
  of(value: string): string {
    if (this.#seen.has(value)) return value;
    if (this.#seen.size >= this.max) return OTHER_LABEL;
    this.#seen.add(value);
    return value;
  }
}
