/**
 * The rules for what is deployed: each of our lint rules is shown to find a planted fault, and to find none in the manifests
 * as they stand. Needs no external program; the steps in deploy-steps.spec.ts add rendering, schemas and promtool.
 */
import { existsSync, globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import type { Json, JsonObject } from '@toolfleet/contracts';
import { compileSchema } from '@toolfleet/bounded-schema';
import yaml from 'js-yaml';
import { describe, expect, it } from 'vitest';
import {
  container,
  manifests,
  podOf,
  type Manifest,
  type Objects,
  type Part,
  type Scaler,
} from './doubles/manifests.js';
import { SERVICES } from '../apps/standalone/src/standalone.config.js';

const ROOT = fileURLToPath(new URL('..', import.meta.url));

const { lint, RULES } = (await import(pathToFileURL(join(ROOT, 'tools/deploy/lint.mjs')).href)) as {
  lint: (objects: Objects, options: { overlay: 'dev' | 'prod' }) => { rule: string; fault: string }[];
  RULES: Record<string, unknown>;
};
const { exampleSettings, settingsIn } = (await import(pathToFileURL(join(ROOT, 'tools/deploy/settings.mjs')).href)) as {
  exampleSettings: () => string[];
  settingsIn: (spec: object) => { path: string[] }[];
};

const read = (path: string) => readFileSync(join(ROOT, path), 'utf8');
const find = (objects: Objects, kind: string, name: string) => {
  const found = objects.find((object) => object.kind === kind && object.metadata.name === name);
  if (!found) throw new Error(`no ${kind} ${name}`);
  return found as unknown as Manifest & Part;
};
const deployment = (objects: Objects, name = 'gateway') => find(objects, 'Deployment', name);
const value = (part: unknown) => part as Part;
const env = (objects: Objects, name: string, key: string, text: string) => {
  const list = container(deployment(objects, name)).env as unknown as { name: string; value: string }[];
  list.splice(0, list.length, ...list.filter((entry) => entry.name !== key), { name: key, value: text });
};
const drop = (objects: Objects, kind: string, name: string) =>
  objects.splice(objects.indexOf(find(objects, kind, name)), 1);
const alertRule = (objects: Objects, name: string) =>
  (find(objects, 'PrometheusRule', 'toolfleet').spec!.groups as unknown as Part[])
    .flatMap((group) => group.rules as unknown as Part[])
    .find((rule) => (rule.alert as unknown) === name)!;

/** A fault for each rule; ids are as in docs/operations/install.md. */
const FAULTS: Record<string, (objects: Objects) => void> = {
  L01: (all) => void (podOf(deployment(all)).securityContext!.runAsNonRoot = value(false)),
  L02: (all) => void (podOf(deployment(all)).securityContext!.runAsUser = value(1000)),
  L03: (all) => void (container(deployment(all)).securityContext!.readOnlyRootFilesystem = value(false)),
  L04: (all) =>
    void (container(deployment(all)).securityContext!.capabilities = value({ drop: ['ALL'], add: ['NET_RAW'] })),
  L05: (all) => void (podOf(deployment(all)).securityContext!.seccompProfile = value({ type: 'Unconfined' })),
  L06: (all) => void (podOf(deployment(all)).hostNetwork = value(true)),
  L07: (all) => void (find(all, 'ServiceAccount', 'budget').automountServiceAccountToken = value(true)),
  L08: (all) => void delete (podOf(deployment(all)) as Partial<Part>).enableServiceLinks,
  L09: (all) => void (podOf(deployment(all)).serviceAccountName = value('default')),
  L10: (all) => void delete (container(deployment(all)).resources!.requests as Partial<Part>).cpu,
  L11: (all) => void delete (container(deployment(all)).resources!.limits as Partial<Part>).memory,
  L12: (all) => void (container(deployment(all)).resources!.limits!.cpu = value('1')),
  L13: (all) => void (container(deployment(all, 'python-sandbox')).resources!.limits!.cpu = value('4')),
  L14: (all) => void delete (container(deployment(all)).resources!.limits as Partial<Part>)['ephemeral-storage'],
  L15: (all) => void (podOf(deployment(all)).volumes as unknown as object[]).push({ name: 'scratch', emptyDir: {} }),
  L16: (all) => env(all, 'python-sandbox', 'PYTHON_SANDBOX_THREADS', '4'),
  L17: (all) => void delete (container(deployment(all)) as Partial<Part>).startupProbe,
  L18: (all) => void (container(deployment(all)).livenessProbe!.httpGet!.path = value('/health/ready')),
  L19: (all) => void (podOf(deployment(all, 'python-sandbox')).terminationGracePeriodSeconds = value(30)),
  L20: (all) => void (deployment(all).spec!.strategy = value({ type: 'Recreate' })),
  L21: (all) => void drop(all, 'PodDisruptionBudget', 'gateway'),
  L22: (all) =>
    void delete (find(all, 'PodDisruptionBudget', 'gateway').spec as Partial<Part>).unhealthyPodEvictionPolicy,
  L23: (all) => void (podOf(deployment(all)).topologySpreadConstraints = value([])),
  L24: (all) => void (podOf(deployment(all)).priorityClassName = value('high')),
  L25: (all) => void (container(deployment(all)).image = value('toolfleet/gateway:0.1.0')),
  L26: (all) => void (container(deployment(all)).imagePullPolicy = value('Always')),
  L27: (all) => void drop(all, 'ConfigMap', 'toolfleet-fleet'),
  L28: (all) => env(all, 'gateway', 'GATEWAY_PROT', '8080'),
  L29: (all) => void (find(all, 'Service', 'gateway').spec!.selector = value({ 'app.kubernetes.io/name': 'gate' })),
  L30: (all) => void (find(all, 'Service', 'gateway').spec!.ports![0]!.targetPort = value('web')),
  L31: (all) =>
    void (find(all, 'NetworkPolicy', 'to-dns').spec!.egress as unknown as object[]).push({
      to: [{ podSelector: { matchLabels: { 'app.kubernetes.io/name': 'nobody' } } }],
    }),
  L32: (all) => void (find(all, 'NetworkPolicy', 'from-ingress').spec!.ingress![0]!.ports![0]!.port = value(9465)),
  L33: (all) => void drop(all, 'NetworkPolicy', 'default-deny'),
  L34: (all) =>
    void (find(all, 'NetworkPolicy', 'to-redis').spec!.egress as unknown as object[]).push({
      to: [{ ipBlock: { cidr: '192.0.2.16/28' } }],
      ports: [{ protocol: 'TCP', port: 4222 }],
    }),
  L35: (all) => {
    const rules = find(all, 'NetworkPolicy', 'to-public').spec!.egress as unknown as Part[];
    const block = rules.flatMap((rule) => rule.to as unknown as Part[]).find((peer) => peer.ipBlock)!;
    block.ipBlock!.except = value(['10.0.0.0/8']);
  },
  L36: (all) => {
    const volumes = podOf(deployment(all)).volumes as unknown as Part[];
    volumes.find((volume) => volume.secret)!.secret!.defaultMode = value(0o444);
  },
  L37: (all) => env(all, 'gateway', 'API_KEY_PEPPER', 'peppercorn-peppercorn'),
  L38: (all) => {
    const second = structuredClone(find(all, 'HorizontalPodAutoscaler', 'gateway'));
    second.metadata.name = value('gateway-2') as unknown as string & Part;
    all.push(second);
  },
  L39: (all) => {
    const triggers = find(all, 'ScaledObject', 'python-sandbox').spec!.triggers as unknown as Part[];
    triggers[0]!.metadata!.query = value('sum(toolfleet_queue_jobs{queue="python-runs",state="wait"})');
  },
  L40: (all) => void (find(all, 'HorizontalPodAutoscaler', 'gateway').spec!.minReplicas = value(1)),
  L41: (all) => {
    const list = container(deployment(all, 'budget')).env as unknown as { name: string }[];
    list.splice(0, list.length, ...list.filter((entry) => entry.name !== 'DATABASE_URL'));
    env(all, 'budget', 'DATABASE_DIR', '/data');
    deployment(all, 'budget').spec!.replicas = value(2);
  },
  L42: (all) => void (find(all, 'PodMonitor', 'budget').spec!.podMetricsEndpoints![0]!.port = value('metrics')),
  L43: (all) => void (alertRule(all, 'ToolQuarantined').expr = value('max(toolfleet_tools_quarantined) > 0')),
  L44: (all) =>
    void (alertRule(all, 'ToolQuarantined').annotations!.runbook_url = value('https://example.com/none.md')),
  L45: (all) =>
    void delete (find(all, 'Service', 'gateway').metadata.labels as Record<string, string>)[
      'app.kubernetes.io/part-of'
    ],
  L46: (all) => {
    const triggers = find(all, 'ScaledObject', 'python-sandbox').spec!.triggers as unknown as Part[];
    triggers[0]!.authenticationRef = value({ name: 'nobody' });
  },
  L47: (all) => void drop(all, 'ScaledObject', 'openapi-executor'),
  L48: (all) => {
    const stores = find(all, 'ConfigMap', 'toolfleet-stores').data as unknown as Record<string, string>;
    stores['database-url'] = 'postgres://toolfleet@postgres.example.com/toolfleet?sslmode=require';
  },
  L49: (all) => void drop(all, 'Ingress', 'gateway'),
  L50: (all) => env(all, 'gateway', 'GATEWAY_CALL_TIMEOUT_MS', '600000'),
  L51: (all) => env(all, 'gateway', 'PUBLIC_HOST', 'set-by-settings'),
  // Production has its Redis elsewhere: a container of one is planted.
  L52: (all) =>
    void Object.assign(container(deployment(all, 'budget')), {
      image: 'redis:7.4-alpine',
      env: [{ name: 'REDIS_MAXMEMORY', value: '400mb' }],
    }),
};

/** Seconds of the longest work of each class: a synchronous call, a run, of fetching a document, of asking Redis. */
const DRAINS: [name: string, seconds: number][] = [
  ['gateway', 120],
  ['mcp-executor', 120],
  ['openapi-executor', 120],
  ['builtin-compute', 120],
  ['builtin-web', 120],
  ['builtin-files', 120],
  ['builtin-agent', 120],
  ['python-sandbox', 60],
  ['registry', 30],
  ['budget', 2],
  ['records', 5],
  ['identity', 5],
];

/** More faults that a rule finds, and those that only the other autoscalers can have. */
const OTHER_FAULTS: [rule: string, scaler: Scaler, what: string, plant: (objects: Objects) => void][] = [
  ['L39', 'hpa', 'an adapter rule without running jobs', (all) => adapterRule(all, '|active', '')],
  ['L39', 'keda-redis', 'counts of one shard of several', (all) => env(all, 'gateway', 'QUEUE_SHARDS', '3')],
  ['L39', 'keda-redis', 'a formula without running jobs', (all) => void (modifiers(all).formula = value('wait'))],
  [
    'L43',
    'hpa',
    'an adapter rule over an unknown metric',
    (all) => adapterRule(all, '(toolfleet_queue_jobs{', '(jobs{'),
  ],
  ...['max(up)', 'max by (queue) (up)', 'sum without (instance) (up)', 'up and on (instance) up'].map(
    (query): [string, Scaler, string, (objects: Objects) => void] => [
      'L43',
      'keda',
      `an alert over every namespace: ${query}`,
      (all) => void (alertRule(all, 'ToolQuarantined').expr = value(`${query} > 0`)),
    ],
  ),
  [
    'L46',
    'hpa',
    'an adapter rule of no namespace',
    (all) => adapterRule(all, 'overrides: { namespace: { resource: namespace } }', 'namespaced: false'),
  ],
  ['L46', 'hpa', 'an adapter query over every namespace', (all) => adapterRule(all, '{<<.LabelMatchers>>}', '')],
  [
    'L46',
    'hpa',
    'a metric the adapter does not make',
    (all) => adapterRule(all, 'as: toolfleet_busy_pods', 'as: busy'),
  ],
  [
    'L46',
    'keda',
    'a static fallback',
    (all) => void delete (find(all, 'ScaledObject', 'mcp-executor').spec!.fallback as Partial<Part>).behavior,
  ],
  [
    'L46',
    'keda',
    'an empty answer that counts as 0',
    (all) => {
      const triggers = find(all, 'ScaledObject', 'mcp-executor').spec!.triggers as unknown as Part[];
      delete (triggers[0]!.metadata as Partial<Part>).ignoreNullValues;
    },
  ],
  [
    'L42',
    'keda',
    'a PodMonitor without the labels that alerts select by',
    (all) => void delete (find(all, 'PodMonitor', 'gateway').spec as Partial<Part>).podTargetLabels,
  ],
  [
    'L46',
    'keda-redis',
    'a formula over no trigger',
    (all) => void (modifiers(all).formula = value('wait + active + running')),
  ],
  [
    'L46',
    'keda',
    'a query over every namespace',
    (all) => {
      const triggers = find(all, 'ScaledObject', 'mcp-executor').spec!.triggers as unknown as Part[];
      triggers[0]!.metadata!.query = value(String(triggers[0]!.metadata!.query).replace('namespace="toolfleet",', ''));
    },
  ],
  [
    'L22',
    'keda',
    'one pod at a time of a class that scales',
    (all) => void (find(all, 'PodDisruptionBudget', 'python-sandbox').spec!.maxUnavailable = value(1)),
  ],
  [
    'L36',
    'keda',
    'secrets of tools that others may read',
    (all) => {
      const volumes = podOf(deployment(all, 'openapi-executor')).volumes as unknown as Part[];
      volumes.find(({ projected }) => projected)!.projected!.defaultMode = value(0o444);
    },
  ],
  ['L38', 'keda', 'replicas next to an autoscaler', (all) => void (deployment(all).spec!.replicas = value(3))],
  ['L31', 'keda', 'a peer in every namespace', (all) => peers(all, value({ namespaceSelector: {} }))],
  ['L49', 'keda', 'a gateway that accepts no caller', (all) => forget(all, 'JWT_ISSUER', 'GATEWAY_ADMIN_KEY_FILE')],
  ['L49', 'keda', 'a host without TLS', (all) => void (find(all, 'Ingress', 'gateway').spec!.tls = value([]))],
  ['L50', 'hpa', 'a route with a short time-out', (all) => void (routeRule(all).timeouts = value({ request: '60s' }))],
  ...DRAINS.map(([name, seconds]): [string, Scaler, string, (objects: Objects) => void] => [
    'L19',
    'keda',
    `a drain of ${name} below ${seconds} s`,
    (all) => env(all, name, 'DRAIN_TIMEOUT_MS', String(seconds * 1_000 - 1)),
  ]),
];
const routeRule = (all: Objects) => find(all, 'HTTPRoute', 'gateway').spec!.rules![1]!;
const peers = (all: Objects, peer: Part) => {
  find(all, 'NetworkPolicy', 'from-ingress').spec!.ingress![0]!.from = value([peer]);
};
const forget = (all: Objects, ...keys: string[]) => {
  const list = container(deployment(all)).env as unknown as { name: string }[];
  list.splice(0, list.length, ...list.filter(({ name }) => !keys.includes(name)));
};
const modifiers = (all: Objects) => find(all, 'ScaledObject', 'python-sandbox').spec!.advanced!.scalingModifiers!;
const adapterRule = (all: Objects, from: string, to: string) => {
  const data = find(all, 'ConfigMap', 'prometheus-adapter-rules').data as unknown as Record<string, string>;
  expect(data['adapter-rules.yaml']).toContain(from);
  data['adapter-rules.yaml'] = data['adapter-rules.yaml']!.replaceAll(from, to);
};

describe('lint rules for manifests', () => {
  it.each(['keda', 'hpa', 'keda-redis'] as const)('find nothing in the unchanged manifests, with %s', (scaler) => {
    expect(lint(manifests(scaler), { overlay: 'prod' })).toEqual([]);
  });

  it.each(OTHER_FAULTS)('%s with %s finds %s', (rule, scaler, _what, plant) => {
    const objects = manifests(scaler);
    plant(objects);
    expect(lint(objects, { overlay: 'prod' }).map((found) => found.rule)).toContain(rule);
  });

  it('are all shown to find a planted fault', () => {
    expect(Object.keys(FAULTS).toSorted()).toEqual(Object.keys(RULES).toSorted());
    expect(Object.keys(RULES)).toHaveLength(52);
  });

  it.each(Object.keys(FAULTS).toSorted())('%s finds its fault', (rule) => {
    const objects = manifests();
    FAULTS[rule]!(objects);
    expect(lint(objects, { overlay: 'prod' }).map((found) => found.rule)).toContain(rule);
  });

  it('L34 finds a way to every pod on the port of Redis', () => {
    const objects = manifests();
    (find(objects, 'NetworkPolicy', 'to-redis').spec!.egress as unknown as object[]).push({
      to: [{ podSelector: {} }],
      ports: [{ protocol: 'TCP', port: 6380 }],
    });
    expect(lint(objects, { overlay: 'prod' }).map((found) => found.rule)).toContain('L34');
  });
});

describe('Redis', () => {
  interface Compose {
    services: Record<'redis', { mem_limit?: string; environment: { REDIS_MAXMEMORY: string } }>;
    'x-service': { mem_limit: string };
  }

  it('refuses writes before its container is full, under Compose as well', () => {
    const { services, 'x-service': all } = yaml.load(read('docker-compose.yml')) as Compose;
    const megabytes = (text: string) => Number(/^(\d+)mb?$/.exec(text)![1]);
    const limit = megabytes(services.redis.mem_limit ?? all.mem_limit);
    expect(megabytes(services.redis.environment.REDIS_MAXMEMORY)).toBeLessThanOrEqual(0.7 * limit);
    expect(read('deploy/compose/redis.sh')).toContain('--maxmemory "$REDIS_MAXMEMORY" --maxmemory-policy noeviction');
  });
});

describe('the sizes of production', () => {
  it('in docs/operations/kubernetes.md are those of the manifests', async () => {
    const { sizeTable } = (await import(pathToFileURL(join(ROOT, 'tools/deploy/sizes.mjs')).href)) as {
      sizeTable: (objects: Objects) => string;
    };
    expect(read('docs/operations/kubernetes.md')).toContain(sizeTable(manifests()));
  });

  it('start from the CPU per call that a recorded run measured', () => {
    const page = read('docs/operations/scaling.md');
    const [, recorded] = /`(test\/load\/results\/[\w-]+\.json)`/.exec(page)!;
    const [{ rounds }] = (JSON.parse(read(recorded!)) as Recorded).results;
    for (const [row, key] of Object.entries({ 'builtin executor': 'builtin-executor', NATS: 'nats', Redis: 'redis' })) {
      expect(page).toContain(`| ${row} | ${spread(rounds, key)} |`);
    }
    for (const key of ['gateway', 'budget']) expect(page).toContain(`| ${key} | ${spread(rounds, key)} |`);
    const limit = 1e6 / Math.max(...rounds.map(({ ours_32: { cpu_us_per_call: cpu } }) => cpu['gateway']!));
    expect(page).toContain(
      `about ${(Math.round(limit / 100) * 100).toLocaleString('en')} calls/s (one thread) | replicas |`,
    );
  });

  interface Recorded {
    results: [{ rounds: { ours_32: { cpu_us_per_call: Record<string, number> } }[] }];
  }
  const spread = (rounds: Recorded['results'][0]['rounds'], key: string) => {
    const all = rounds.map(({ ours_32: { cpu_us_per_call: cpu } }) => cpu[key]!).toSorted((a, b) => a - b);
    return `${all[all.length >> 1]} (${all[0]} to ${all.at(-1)})`;
  };
});

describe('settings.yaml', () => {
  interface Settings {
    spec: Record<string, unknown>;
  }
  const { spec } = yaml.load(read('deploy/k8s/overlays/prod/settings.yaml')) as Settings;
  const schema = compileSchema(JSON.parse(read('deploy/k8s/settings.schema.json')) as JsonObject);

  it('is complete by its schema, and each setting is used by a component', () => {
    expect(schema.check(spec as Json)).toBe(true);
    expect(schema.check({ ...spec, hosts: 'a' } as Json)).toBe(false);
    const components = globSync('deploy/k8s/components/*/kustomization.yaml', { cwd: ROOT }).map(read).join('\n');
    const used = new Set(
      [...components.matchAll(/kind: Settings, fieldPath: spec\.([\w.]+)/g)].map(([, path]) => path!),
    );
    const leaves = settingsIn(spec).map(({ path }) => path.join('.'));
    const isUsed = (leaf: string) => [...used].some((path) => path === leaf || leaf.startsWith(`${path}.`));
    // `classes` becomes a component of its own (tools/deploy/classes.mjs).
    expect(leaves.filter((leaf) => !isUsed(leaf) && leaf !== 'classes')).toEqual([]);
    expect([...used].filter((path) => !leaves.some((leaf) => leaf === path || leaf.startsWith(`${path}.`)))).toEqual(
      [],
    );
  });

  it('names the values of the example that an operator has to replace', () => {
    expect(exampleSettings()).toEqual(expect.arrayContaining(['host', 'jwt.issuer', 'stores.redis.peers']));
    expect(exampleSettings()).not.toContain('monitoring.labels');
  });
});

describe('generated files', () => {
  it('name only metrics of the catalogue in dashboards', () => {
    const known = new Set([...read('docs/metrics.md').matchAll(/^\| `(\w+)`/gm)].map((match) => match[1]!));
    for (const file of globSync('deploy/grafana/*.json', { cwd: ROOT })) {
      const used = [...read(file).matchAll(/\b(?:toolfleet|shannon)_\w+/g)].map((match) => match[0]);
      const unknown = used.filter((name) => !known.has(name) && !known.has(name.replace(/_(bucket|count|sum)$/, '')));
      expect({ file, unknown }).toEqual({ file, unknown: [] });
    }
  });
});

describe('alerts', () => {
  const groups = (file: string) => yaml.load(read(file)) as { groups: { rules: { alert?: string }[] }[] };
  const alerts = groups('deploy/alerts/toolfleet.rules.yml').groups.flatMap(({ rules }) =>
    rules.flatMap(({ alert }) => alert ?? []),
  );
  const cases = new Set(
    (yaml.load(read('deploy/alerts/toolfleet.test.yml')) as { tests: { name: string }[] }).tests.map(
      ({ name }) => name,
    ),
  );

  it.each(alerts)('%s fires, stays silent and resolves in tests, and is in docs/operations/alerts.md', (alert) => {
    const wanted = ['fires', 'is silent just below', 'resolves'].map((what) => `${alert} ${what}`);
    expect(wanted.filter((name) => !cases.has(name))).toEqual([]);
    expect(read('docs/operations/alerts.md')).toMatch(new RegExp(`^\\| .*\\b${alert}\\b|/ ${alert}\\b`, 'm'));
  });
});

describe('docker-compose.yml and the image', () => {
  interface Compose {
    'x-service': { stop_grace_period: string; networks: string[] };
    services: Record<string, ComposeService>;
    networks: Record<string, { internal?: boolean }>;
    secrets: Record<string, { file: string }>;
    volumes: Record<string, unknown>;
  }
  interface ComposeService {
    image: string;
    build?: { args: { APP: string } };
    environment?: Record<string, string>;
    secrets?: string[];
    stop_grace_period?: string;
    user?: string;
    read_only?: boolean;
    cap_drop?: string[];
    volumes?: string[];
    tmpfs?: string[];
    networks?: string[];
    depends_on?: Record<string, unknown>;
  }
  const compose = yaml.load(read('docker-compose.yml')) as Compose;
  const services = Object.entries(compose.services);
  const own = services.filter(([, service]) => service.build);

  it('run every service of the fleet, locked down', () => {
    const apps = new Set(own.map(([, service]) => service.build!.args.APP));
    for (const app of SERVICES) expect(apps).toContain(app);
    for (const [name, service] of own) {
      expect({ name, read_only: service.read_only, drop: service.cap_drop }).toEqual({
        name,
        read_only: true,
        drop: ['ALL'],
      });
      expect(Number(service.user?.split(':')[0])).toBeGreaterThanOrEqual(10_000);
    }
  });

  it('give every service the time that its pod has to finish its work', () => {
    const pods = new Map(
      manifests()
        .filter(({ kind }) => kind === 'Deployment')
        .map((object) => [object.metadata.name, object]),
    );
    const { stop_grace_period: shared } = compose['x-service'];
    for (const [name, service] of own.filter(([each]) => pods.has(each))) {
      const drainMs = Number(service.environment?.['DRAIN_TIMEOUT_MS'] ?? 15_000);
      const ofPod = container(pods.get(name)!).env as unknown as { name: string; value: string }[];
      expect({ name, drainMs }).toEqual({
        name,
        drainMs: Number(ofPod.find((entry) => entry.name === 'DRAIN_TIMEOUT_MS')?.value),
      });
      expect({ name, grace: parseInt(service.stop_grace_period ?? shared, 10) * 1_000 >= drainMs + 3_000 }).toEqual({
        name,
        grace: true,
      });
    }
  });

  it('hand secrets over as files that are declared', () => {
    for (const [, service] of services) {
      for (const secret of service.secrets ?? []) expect(Object.keys(compose.secrets)).toContain(secret);
      for (const [key, text] of Object.entries(service.environment ?? {})) {
        if (/(PASSWORD|SECRET|TOKEN|API_KEY|PEPPER)/.test(key))
          expect({ key, file: /_FILE$/.test(key) }).toEqual({ key, file: true });
        const file = /^\/run\/secrets\/(\S+)$/.exec(String(text))?.[1];
        if (file) expect(service.secrets).toContain(file);
      }
    }
    expect(compose.services['openapi-executor']!.secrets).toEqual(
      expect.arrayContaining(['weather_api_key', 'github_token']),
    );
  });

  it('can take the keys of APIs from an external secret store', () => {
    const override = new yaml.Type('!override', {
      kind: 'mapping',
      construct: (replaces: unknown) => ({ replaces }),
    });
    const schema = yaml.DEFAULT_SCHEMA.extend(override);
    const { secrets } = yaml.load(read('deploy/compose/external-secrets.yml'), { schema }) as Compose;
    for (const [name, secret] of Object.entries(secrets)) {
      expect(Object.keys(compose.secrets)).toContain(name);
      expect(secret).toEqual({ replaces: { external: true } });
    }
    expect(Object.keys(secrets)).toEqual(['weather_api_key', 'github_token']);
  });

  it('mount files that exist and depend on services that exist', () => {
    for (const [, service] of services) {
      for (const mount of service.volumes ?? []) {
        const source = mount.split(':')[0]!;
        expect({
          source,
          found: source.startsWith('.') ? existsSync(join(ROOT, source)) : source in compose.volumes,
        }).toEqual({ source, found: true });
      }
      for (const name of Object.keys(service.depends_on ?? {})) expect(Object.keys(compose.services)).toContain(name);
    }
  });

  it('let each service reach the stores that its pods reach', () => {
    const sharing = (store: string) =>
      services
        .filter(([name, { networks = compose['x-service'].networks }]) => {
          const ofStore = compose.services[store]!.networks ?? compose['x-service'].networks;
          return name !== store && networks.some((network) => ofStore.includes(network));
        })
        .map(([name]) => name)
        .toSorted();
    const pods = (policy: string) => {
      const { spec } = manifests().find(({ kind, metadata }) => kind === 'NetworkPolicy' && metadata.name === policy)!;
      const { matchExpressions } = (spec as { podSelector: { matchExpressions: [{ values: string[] }] } }).podSelector;
      return matchExpressions[0].values.toSorted();
    };
    // The relay of the metrics shares the network of the sandbox, and gets no login.
    expect(sharing('redis').filter((name) => name !== 'sandbox-metrics')).toEqual(pods('to-redis'));
    expect(sharing('postgres')).toEqual(pods('to-postgres'));
  });

  it('let the sandbox reach Redis only', () => {
    expect(compose.services['python-sandbox']!.networks).toEqual(['sandbox']);
    const inNetwork = services.filter(([, { networks }]) => networks?.includes('sandbox')).map(([name]) => name);
    expect(inNetwork.toSorted()).toEqual(['python-sandbox', 'redis', 'sandbox-metrics']);
    for (const name of ['redis', 'database', 'sandbox']) expect(compose.networks[name]).toEqual({ internal: true });
  });

  it('use no option that the oldest supported engine does not know', () => {
    expect(read('deploy/app.Dockerfile')).not.toContain('--start-interval');
    for (const [, { tmpfs = [] }] of services) for (const mount of tmpfs) expect(mount).not.toMatch(/[ug]id=/);
  });

  it('pin versions', () => {
    for (const [, { image }] of services) expect(image).toMatch(/:(?!latest)v?\d[\w.-]*$/);
  });

  it('build one image: unprivileged, by exec form, with a health check', () => {
    const lines = read('deploy/app.Dockerfile')
      .replaceAll('\\\n', ' ')
      .split('\n')
      .filter((line) => /^[A-Z]+ /.test(line));
    const of = (instruction: string) => lines.filter((line) => line.startsWith(`${instruction} `));
    const last = lines.slice(lines.findLastIndex((line) => line.startsWith('FROM ')));
    expect(read('deploy/app.Dockerfile')).toContain('NODE_IMAGE=node:24-slim');
    expect(Number(/^USER (\d+):(\d+)$/.exec(of('USER').at(-1)!)?.[1])).toBeGreaterThanOrEqual(10_000);
    expect(of('ENTRYPOINT')).toEqual(['ENTRYPOINT ["node", "main.js"]']);
    expect(of('HEALTHCHECK')[0]).toContain('/health/ready');
    expect(of('ADD')).toEqual([]);
    expect(last.some((line) => /^COPY (?!--from=build)/.test(line))).toBe(false);
    for (const line of of('ENV')) expect(line).not.toMatch(/(PASSWORD|SECRET|TOKEN|API_KEY)=/);
    for (const kept of ['.git', '.secrets', '.toolfleet', '**/node_modules'])
      expect(read('.dockerignore').split('\n')).toContain(kept);
  });
});
