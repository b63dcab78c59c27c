/**
 * The production manifests without kustomize: its plain files, with what kustomize would make of the components (patches that add
 * to lists, replacements from settings.yaml), labels, digests and ConfigMaps. test/deploy-steps.spec.ts renders the same by kustomize.
 */
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import yaml from 'js-yaml';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const DIGEST = `@sha256:${'0'.repeat(64)}`;

/** A Kubernetes object. */
export interface Manifest {
  kind: string;
  metadata: { name: string; labels?: Record<string, string> };
  [key: string]: unknown;
}
export type Objects = Manifest[];
/** Any part of a manifest: tests plant faults deep inside. */
export type Part = { [key: string]: Part } & Part[];

/** Component that scales the classes; `hpa` comes with the Gateway API, the others with an Ingress. */
export type Scaler = 'keda' | 'hpa' | 'keda-redis';

interface Component {
  patches?: { target?: { kind: string; name: string }; patch: string }[];
  replacements?: {
    source: { fieldPath: string };
    targets: {
      select: { kind: string; name?: string };
      fieldPaths: string[];
      options?: { delimiter: string; index?: number };
    }[];
  }[];
}

const read = (path: string) => readFileSync(join(ROOT, path), 'utf8');
export const podOf = (object: Manifest) => (object as unknown as Part).spec!.template!.spec!;
export const container = (object: Manifest) => podOf(object).containers![0]!;

const made = new Map<Scaler, Objects>();

/** The objects of production with this autoscaler; the caller may change them. */
export function manifests(scaler: Scaler = 'keda'): Objects {
  if (!made.has(scaler)) made.set(scaler, compose(scaler));
  return structuredClone(made.get(scaler)!);
}

function compose(scaler: Scaler): Objects {
  const components = [
    'settings',
    'network-policy',
    'external-secrets',
    'prometheus-operator',
    'hpa-cpu',
    scaler,
    'admin-key',
    'jwt',
    'public-host',
    scaler === 'hpa' ? 'gateway-api' : 'ingress',
  ];
  const files = [
    ...globSync('deploy/k8s/base/*/*.yaml', { cwd: ROOT }),
    ...globSync(`deploy/k8s/components/{${components.join()}}/*.yaml`, { cwd: ROOT }),
    'deploy/alerts/prometheus-rule.yaml',
  ].filter((file) => !/(kustomization|fleet|adapter-rules)\.yaml$/.test(file));
  const objects = files.toSorted().flatMap((file) => yaml.loadAll(read(file)) as Objects);
  const map = (name: string, data: Record<string, string>) =>
    objects.push({ kind: 'ConfigMap', metadata: { name }, data });
  map('toolfleet-common', {
    ADMIN_HOST: '0.0.0.0',
    ADMIN_PORT: '9464',
    OTEL_EXPORTER_OTLP_ENDPOINT: '',
    OTEL_TRACES_SAMPLE_RATIO: '',
  });
  map('toolfleet-fleet', { 'fleet.yaml': '' });
  map('toolfleet-policies', { 'tools.rego': read('deploy/policies/tools.rego') });
  map('toolfleet-stores', {
    'nats-url': '',
    'redis-scheme': '',
    'redis-host': '',
    'database-url': '',
    'cluster-cidrs': '',
  });
  if (scaler === 'hpa') {
    map('prometheus-adapter-rules', { 'adapter-rules.yaml': read('deploy/k8s/components/hpa/adapter-rules.yaml') });
  }
  const settings = yaml.load(read('deploy/k8s/overlays/prod/settings.yaml')) as Part;
  for (const component of components) {
    const text = read(`deploy/k8s/components/${component}/kustomization.yaml`);
    apply(yaml.load(text) as Component, objects, settings);
  }
  apply(yaml.load(read('deploy/k8s/overlays/prod/classes/kustomization.yaml')) as Component, objects, settings);
  for (const object of objects) {
    const { template } = (object['spec'] ?? {}) as { template?: Manifest };
    for (const { metadata } of object.kind === 'Deployment' ? [object, template!] : [object]) {
      metadata.labels = {
        ...metadata.labels,
        'app.kubernetes.io/part-of': 'toolfleet',
        'app.kubernetes.io/managed-by': 'kustomize',
      };
    }
    if (object.kind === 'Deployment')
      container(object).image = `${String(container(object).image)}${DIGEST}` as unknown as Part;
  }
  return objects;
}

function apply({ patches = [], replacements = [] }: Component, objects: Objects, settings: Part): void {
  const select = (kind: string, name?: string) =>
    objects.filter((object) => object.kind === kind && (name === undefined || object.metadata.name === name));
  for (const { target, patch } of patches) {
    if (target === undefined) {
      const merged = yaml.load(patch) as Manifest;
      for (const object of select(merged.kind, merged.metadata.name)) merge(object as unknown as Part, merged as never);
      continue;
    }
    for (const { op, path, value } of yaml.load(patch) as { op: string; path: string; value: Part }[]) {
      if (op !== 'add' || !path.endsWith('/-')) throw new Error(`no patch of this kind is known here: ${op} ${path}`);
      const keys = path.slice(1, -2).split('/');
      for (const object of select(target.kind, target.name))
        keys.reduce((part, key) => part[key]!, object as unknown as Part).push(value);
    }
  }
  for (const { source, targets } of replacements) {
    const value = source.fieldPath.split('.').reduce((part, key) => part[key]!, settings);
    for (const { select: wanted, fieldPaths, options } of targets)
      for (const object of select(wanted.kind, wanted.name))
        for (const path of fieldPaths)
          replace(object as unknown as Part, keysIn(path), (old) =>
            options === undefined
              ? structuredClone(value)
              : (replacePart(String(old), String(value), options) as never),
          );
  }
}

function replacePart(
  text: string,
  value: string,
  { delimiter, index = 0 }: { delimiter: string; index?: number },
): string {
  return text.split(delimiter).with(index, value).join(delimiter);
}

/** A strategic merge: items of lists are the same by name, and the patch's come first. */
function merge(into: Part, patch: Part): void {
  for (const [key, value] of Object.entries(patch)) {
    const old = into[key];
    if (Array.isArray(value) && Array.isArray(old) && value.every((item) => item.name !== undefined)) {
      const merged = value.map((item) => {
        const same = old.find(({ name }) => name === item.name);
        if (same === undefined) return item;
        merge(same, item);
        return same;
      });
      into[key] = [...merged, ...old.filter((item) => !merged.includes(item))] as never;
    } else if (value !== null && typeof value === 'object' && !Array.isArray(value) && old !== undefined)
      merge(old, value);
    else into[key] = value;
  }
}

/** `a.[b.c].0.[name=X].*` as keys. */
const keysIn = (path: string) => [...path.matchAll(/\[([^\]]+)\]|[^.[\]]+/g)].map(([key, quoted]) => quoted ?? key);

function replace(part: Part, [key, ...rest]: string[], change: (old: Part | undefined) => Part): void {
  const named = /^name=(.+)$/.exec(key!)?.[1];
  const at =
    key === '*'
      ? [...part.keys()]
      : named === undefined
        ? [key!]
        : [part.findIndex((item) => String(item.name) === named)];
  for (const one of at as string[]) {
    if (rest.length === 0) part[one] = change(part[one]);
    // A wildcard passes by the items without the field, such as recording rules without annotations.
    else if (part[one] !== undefined) replace(part[one], rest, change);
  }
}
