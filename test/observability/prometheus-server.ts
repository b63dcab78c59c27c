/** A real Prometheus for a test: scrapes given targets each second and evaluates the rules of deploy/alerts. */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { endChild, eventually, freePort, spawnChild } from '@toolfleet/testing';

/** False on a machine without the program (Debian package `prometheus`). */
export const HAS_PROMETHEUS = spawnSync('prometheus', ['--version']).status === 0;

/** What is scraped: an address, and the name its pod would have. */
export interface Target {
  address: string;
  workload: string;
}

/** A Prometheus that runs. */
export interface PrometheusServer {
  setTargets(targets: readonly Target[]): void;
  /** Whether the expression gave a finite number at any second since the start. */
  hasData(expression: string): Promise<boolean>;
  /** Every metric name seen so far. */
  names(): Promise<Set<string>>;
  /** Rules with the state of their last evaluation, e.g. `ok`. */
  rules(): Promise<{ name: string; health: string; lastError?: string }[]>;
  stop(): Promise<void>;
}

interface Matrix {
  result: { values: [at: number, value: string][] }[];
}

/** Starts Prometheus on a free loopback port with its data in its own folder. */
export async function startPrometheus(ruleFile: string): Promise<PrometheusServer> {
  const folder = mkdtempSync(join(tmpdir(), 'toolfleet-prometheus-'));
  const targets = join(folder, 'targets.json');
  const config = join(folder, 'prometheus.yml');
  writeFileSync(targets, '[]');
  // JSON is YAML.
  writeFileSync(
    config,
    JSON.stringify({
      global: { scrape_interval: '1s', evaluation_interval: '1s' },
      rule_files: [ruleFile],
      scrape_configs: [{ job_name: 'toolfleet', file_sd_configs: [{ files: [targets], refresh_interval: '1s' }] }],
    }),
  );
  const port = await freePort();
  const child = spawnChild(
    'prometheus',
    [`--config.file=${config}`, `--storage.tsdb.path=${folder}/data`, `--web.listen-address=127.0.0.1:${port}`],
    { stdio: 'ignore' },
    folder,
  );
  const since = Date.now() / 1_000;
  const get = async <T>(path: string, parameters: Record<string, string> = {}): Promise<T> => {
    const response = await fetch(`http://127.0.0.1:${port}/api/v1/${path}?${new URLSearchParams(parameters)}`);
    const { status, data, error } = (await response.json()) as { status: string; data: T; error?: string };
    if (status !== 'success') throw new Error(`${JSON.stringify(parameters)}: ${error}`);
    return data;
  };
  await eventually('Prometheus is ready', () =>
    fetch(`http://127.0.0.1:${port}/-/ready`).then(
      ({ ok }) => ok,
      () => false,
    ),
  );
  return {
    setTargets: (list) =>
      writeFileSync(
        targets,
        JSON.stringify(
          list.map(({ address, workload }) => ({
            targets: [address],
            labels: {
              app_kubernetes_io_name: workload,
              app_kubernetes_io_part_of: 'toolfleet',
              namespace: 'toolfleet',
            },
          })),
        ),
      ),
    async hasData(query) {
      const range = { start: String(since), end: String(Date.now() / 1_000), step: '1s' };
      const { result } = await get<Matrix>('query_range', { query, ...range });
      return result.some(({ values }) => values.some(([, value]) => Number.isFinite(Number(value))));
    },
    names: async () => new Set(await get<string[]>('label/__name__/values')),
    rules: async () => {
      const { groups } = await get<{ groups: { rules: { name: string; health: string; lastError?: string }[] }[] }>(
        'rules',
      );
      return groups.flatMap(({ rules }) => rules);
    },
    async stop() {
      await endChild(child, 'SIGKILL');
      rmSync(folder, { recursive: true, force: true, maxRetries: 3 });
    },
  };
}
