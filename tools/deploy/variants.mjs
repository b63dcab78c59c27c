/** What is rendered and checked: the overlays as they stand, and production with each of its other autoscalers. */
import { mkdirSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import yaml from 'js-yaml';

const ROOT = dirname(dirname(dirname(fileURLToPath(import.meta.url))));
const K8S = join(ROOT, 'deploy/k8s');

/** Overlay by name of the variant; `instead` names the component that takes keda's place, `also` what comes on top. */
export const VARIANTS = {
  dev: { overlay: 'dev' },
  prod: { overlay: 'prod' },
  'prod-hpa': { overlay: 'prod', instead: 'hpa' },
  'prod-keda-redis': { overlay: 'prod', instead: 'keda-redis', also: ['stores-ca', 'result-volume'] },
};

/** Folder to hand to `kubectl kustomize`; for another autoscaler, one below `out` with a copy of the overlay's list. */
export function folderOf(name, out) {
  const { overlay, instead } = VARIANTS[name];
  const source = join(K8S, 'overlays', overlay);
  if (!instead) return source;
  const folder = join(out, name);
  const from = (path) => relative(folder, join(source, path));
  const list = overlayList(overlay);
  mkdirSync(folder, { recursive: true });
  const copy = {
    ...list,
    resources: list.resources.map(from),
    components: componentsOf(name).map((component) => from(`../../components/${component}`)),
  };
  writeFileSync(join(folder, 'kustomization.yaml'), yaml.dump(copy));
  return folder;
}

/** Components that no variant contains: nothing would check them. */
export function forgottenComponents() {
  const used = new Set(Object.keys(VARIANTS).flatMap(componentsOf));
  return readdirSync(join(K8S, 'components')).filter((component) => !used.has(component));
}

/** Names of the components in a variant. */
export function componentsOf(name) {
  const { overlay, instead, also = [] } = VARIANTS[name];
  const own = (overlayList(overlay).components ?? []).map((path) => path.split('/').at(-1));
  return [...own.map((component) => (instead && component === 'keda' ? instead : component)), ...also];
}

const overlayList = (overlay) => yaml.load(readFileSync(join(K8S, 'overlays', overlay, 'kustomization.yaml'), 'utf8'));
