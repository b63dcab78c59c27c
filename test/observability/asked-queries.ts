/** Everything that asks Prometheus about a fleet: dashboards, rules, autoscalers, as they are deployed. */
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import yaml from 'js-yaml';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const read = (path: string): string => readFileSync(join(ROOT, path), 'utf8');

/** A query and where it stands. */
export interface AskedQuery {
  at: string;
  expression: string;
}

interface Rule {
  alert?: string;
  record?: string;
  expr: string;
}

/** Where the rules are. */
export const RULE_FILE = join(ROOT, 'deploy/alerts/toolfleet.rules.yml');
const rules = (yaml.load(readFileSync(RULE_FILE, 'utf8')) as { groups: { rules: Rule[] }[] }).groups.flatMap(
  (group) => group.rules,
);

/** Each query of each panel. Grafana's window becomes five scrapes of a second. */
export function panelQueries(): AskedQuery[] {
  return globSync('deploy/grafana/*.json', { cwd: ROOT }).flatMap((file) => {
    const { panels } = JSON.parse(read(file)) as { panels: { title: string; targets: { expr: string }[] }[] };
    return panels.flatMap(({ title, targets }) =>
      targets.map(({ expr }) => ({
        at: `${file}: ${title}`,
        expression: expr.replaceAll('[$__rate_interval]', '[5s]').replaceAll('$namespace', '.*'),
      })),
    );
  });
}

/** Whether a rule has a value only while something is wrong. */
const isCondition = ({ expr }: Rule): boolean => /[<>]|==/.test(expr.replaceAll(/\{[^}]*\}/g, ''));
const conditions = new Set(rules.flatMap((rule) => (rule.record && isCondition(rule) ? rule.record : [])));
/** Exposed after a fault of the configuration, with TLS or JWT, and after a failure of the result store; the fleet has none of them. */
const OF_OTHER_FLEETS = ['toolfleet_faults', 'toolfleet_expiry_days', 'toolfleet_result_store_failures_total'];

/** Each recording rule that has a value while all is well. */
export function recordedQueries(): AskedQuery[] {
  return rules
    .filter(({ record }) => record && !conditions.has(record))
    .map(({ record, expr }) => ({ at: `recording rule ${record}`, expression: expr }));
}

/** Each query by which an autoscaler decides; what the adapter fills in is left out. */
export function scalerQueries(): AskedQuery[] {
  const objects = globSync('deploy/k8s/components/keda/*.yaml', { cwd: ROOT }).flatMap(
    (file) =>
      yaml.loadAll(read(file)) as {
        kind: string;
        metadata?: { name: string };
        spec?: { triggers: { metadata: { query?: string } }[] };
      }[],
  );
  const adapter = yaml.load(read('deploy/k8s/components/hpa/adapter-rules.yaml')) as {
    externalRules: { seriesQuery: string; metricsQuery: string }[];
  };
  return [
    ...objects
      .filter(({ kind }) => kind === 'ScaledObject')
      .flatMap(({ metadata, spec }) =>
        spec!.triggers.map((trigger) => ({
          at: `ScaledObject ${metadata!.name}`,
          expression: trigger.metadata.query!,
        })),
      ),
    ...adapter.externalRules.map(({ seriesQuery, metricsQuery }) => ({
      at: `adapter rule over ${seriesQuery}`,
      expression: metricsQuery.replaceAll(/,?<<[^>]*>>/g, ''),
    })),
  ];
}

/** Names in each condition, of an alert or recorded; Kubernetes' come from elsewhere. */
export async function alertMetrics(): Promise<{ alert: string; metric: string }[]> {
  const { metricsIn } = (await import(pathToFileURL(join(ROOT, 'tools/deploy/lint/model.mjs')).href)) as {
    metricsIn: (expression: string) => string[];
  };
  return rules
    .filter(({ alert, record }) => alert || conditions.has(record!))
    .flatMap(({ alert, record, expr }) =>
      [...new Set(metricsIn(expr))]
        .filter((metric) => !metric.startsWith('kube_') && !conditions.has(metric) && !OF_OTHER_FLEETS.includes(metric))
        .map((metric) => ({ alert: alert ?? record!, metric })),
    );
}
