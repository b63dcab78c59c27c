/**
 * The alerts of deploy/alerts on what a fleet really exposed, without waiting for real minutes: a recorder scrapes every process as often
 * as it likes, and each round counts as one scrape interval of Prometheus. promtool evaluates the rules as they are deployed.
 */
import { execFile, spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { RULE_FILE } from './asked-queries.js';

/** False on a machine without the program (Debian package `prometheus`). */
export const HAS_PROMTOOL = spawnSync('promtool', ['--version']).status === 0;

/** Scrape and evaluation interval of deploy/prometheus.yml and the PodMonitors, in seconds. */
const INTERVAL_S = 15;
/** Intervals of history before a recording: the longest window of an alert that pages within minutes is an hour. */
const HISTORY = 240;
const METRICS_OF_RULES = new Set(readFileSync(RULE_FILE, 'utf8').match(/\b(?:shannon|toolfleet)_\w+/g));

/** A process as Prometheus finds it. */
export interface ScrapedTarget {
  /** Name of its workload, as in deploy/k8s. */
  workload: string;
  instance: string;
  /** The text of `/metrics`; rejects when the process is gone. */
  scrape: () => Promise<string>;
}

/** Values of one series by round; undefined where it was not exposed. */
interface Series {
  isCounter: boolean;
  values: (number | undefined)[];
}

/** An alert and the seconds until it fired first. */
export interface FiredAlert {
  alert: string;
  /** Empty for a fleet outside Kubernetes. */
  namespace: string;
  severity: string;
  seconds: number;
}

/** What was scraped in a number of rounds. */
export class Recording {
  readonly #series = new Map<string, Series>();
  #rounds = 0;

  /** Number of rounds so far. */
  get rounds(): number {
    return this.#rounds;
  }

  /** Scrapes all targets once. A target that does not answer has `up` 0, one that is not given has no series at all. */
  async round(targets: readonly ScrapedTarget[]): Promise<void> {
    const texts = await Promise.all(targets.map(({ scrape }) => scrape().catch(() => undefined)));
    for (const [index, { workload, instance }] of targets.entries()) {
      const labels = `app_kubernetes_io_name="${workload}",app_kubernetes_io_part_of="toolfleet",instance="${instance}"`;
      const text = texts[index];
      this.#note(`up{${labels}}`, text === undefined ? 0 : 1, false);
      for (const { name, own, value, isCounter } of samples(text ?? '')) {
        this.#note(`${name}{${own === '' ? labels : `${own},${labels}`}}`, value, isCounter);
      }
    }
    this.#rounds += 1;
  }

  /**
   * Alerts that fire, with the seconds since round `from`, in the order in which they do. Counters have grown for an hour before the
   * recording as they do in the rounds before `from`; gauges had their first value.
   * @param options.without workload with targets that have disappeared after round `from`, instead of not answering
   */
  async alerts(from: number, options: { without?: string } = {}): Promise<FiredAlert[]> {
    const gone = options.without && `app_kubernetes_io_name="${options.without}"`;
    const input = [...this.#series].map(([series, { isCounter, values }]) => {
      const kept = gone && series.includes(gone) ? values.slice(0, from + 1) : values;
      return { series, values: this.#notation(kept, isCounter, from) };
    });
    const fired = await evaluate(input, INTERVAL_S, HISTORY + this.#rounds);
    return fired
      .map((one) => ({ ...one, seconds: one.seconds - (HISTORY + from) * INTERVAL_S }))
      .toSorted((a, b) => a.seconds - b.seconds);
  }

  /** Alerts that fire within a day in which every minute is like this recording. */
  alertsOfADay(): Promise<FiredAlert[]> {
    const minutes = 24 * 60;
    const input = [...this.#series].map(([series, { isCounter, values }]) => {
      const known = values.filter((value) => value !== undefined);
      const perMinute = (slope(known) * 60) / INTERVAL_S;
      const cycled = Array.from({ length: minutes }, (_, minute) => known[minute % known.length]!);
      return { series, values: isCounter ? `${known[0]!}+${perMinute}x${minutes}` : cycled.join(' ') };
    });
    return evaluate(input, 60, minutes);
  }

  #note(series: string, value: number, isCounter: boolean): void {
    const known = this.#series.get(series) ?? { isCounter, values: [] };
    known.values[this.#rounds] = value;
    this.#series.set(series, known);
  }

  /** The values in the notation of promtool, with the history in front. */
  #notation(values: readonly (number | undefined)[], isCounter: boolean, from: number): string {
    const first = values[0];
    const before = values.slice(0, from + 1).filter((value) => value !== undefined);
    const growth = isCounter ? slope(before) : 0;
    const start = (first ?? 0) - growth * HISTORY;
    // A counter is never negative. It may be higher as a whole: rules look at increases.
    const shift = first === undefined ? 0 : Math.max(0, -start);
    const history = first === undefined ? `_x${HISTORY}` : `${start + shift}+${growth}x${HISTORY - 1}`;
    const rest = Array.from({ length: this.#rounds }, (_, round) => {
      const value = values[round];
      if (value !== undefined) return String(value + shift);
      return round > 0 && values[round - 1] !== undefined ? 'stale' : '_';
    });
    return `${history} ${rest.join(' ')}`;
  }
}

/** Mean growth per round. */
const slope = (values: readonly number[]): number =>
  values.length < 2 ? 0 : Math.max(0, values.at(-1)! - values[0]!) / (values.length - 1);

const SAMPLE = /^(\w+)(?:\{(.*)\})? (\S+)$/;

/** Samples of metrics that the rules ask for. */
function* samples(text: string): Generator<{ name: string; own: string; value: number; isCounter: boolean }> {
  let isCounter = false;
  for (const line of text.split('\n')) {
    const type = /^# TYPE \w+ (\w+)/.exec(line)?.[1];
    if (type) isCounter = type !== 'gauge';
    const [, name = '', own = '', value] = SAMPLE.exec(line) ?? [];
    if (METRICS_OF_RULES.has(name)) yield { name, own, value: Number(value), isCounter };
  }
}

/**
 * When each alert fired first, in seconds since the first value; rules are evaluated once per value.
 * @throws Error with promtool's message when it cannot read the series or the rules
 */
export async function evaluate(
  input: readonly { series: string; values: string }[],
  intervalS: number,
  values: number,
): Promise<FiredAlert[]> {
  const folder = mkdtempSync(join(tmpdir(), 'toolfleet-rules-'));
  const file = join(folder, 'test.json');
  const times = `timestamp(ALERTS{alertstate="firing"})[2d:${intervalS}s]`;
  // promtool prints what an expression gives only where it differs from what is expected: without an alert there is the -1.
  const expr = `min by (namespace, alertname, severity) (min_over_time(${times})) or vector(-1)`;
  const query = { expr, eval_time: `${values * intervalS}s`, exp_samples: [] };
  const test = { interval: `${intervalS}s`, input_series: input, promql_expr_test: [query] };
  const rules = { rule_files: [RULE_FILE], evaluation_interval: `${intervalS}s`, tests: [test] };
  try {
    writeFileSync(file, JSON.stringify(rules)); // JSON is YAML.
    // Its exit code is 1 whenever it prints what an expression gives.
    const output = await new Promise<string>((resolve) => {
      // It lives for seconds: collecting garbage rarely saves half of its time.
      const options = { maxBuffer: 2 ** 26, env: { ...process.env, GOGC: '1600', GOMEMLIMIT: '1GiB' } };
      execFile('promtool', ['test', 'rules', file], options, (_, out, errors) => resolve(out + errors));
    });
    const got = /^\s*got: (.*)$/m.exec(output)?.[1];
    if (got === undefined) throw new Error(`promtool: ${output}`);
    return [...got.matchAll(/\{([^}]*)\} (\S+?)(?:,|$)/g)]
      .map(([, labels = '', seconds]) => ({
        alert: /alertname="([^"]*)"/.exec(labels)?.[1] ?? '',
        namespace: /namespace="([^"]*)"/.exec(labels)?.[1] ?? '',
        severity: /severity="([^"]*)"/.exec(labels)?.[1] ?? '',
        seconds: Number(seconds),
      }))
      .filter(({ alert }) => alert !== '');
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
