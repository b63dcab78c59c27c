/** The variants to render and check: the overlays, and production with each of its other autoscalers. */
import { mkdirSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import yaml from 'js-yaml';

const ROOT = dirname(dirname(dirname(fileURLToPath(import.meta.url))));
const K8S = join(ROOT, 'deploy/k8s');

/** The component of an overlay that `npm run deploy:generate` makes of its settings. */
const CLASSES = 'classes';

/** Overlay by name of the variant; `instead` names components that take the place of others, `also` what comes on top. */
export const VARIANTS = {
  dev: { overlay: 'dev' },
  prod: { overlay: 'prod' },
  'prod-hpa': { overlay: 'prod', instead: { keda: 'hpa', ingress: 'gateway-api' } },
  'prod-keda-redis': {
    overlay: 'prod',
    instead: { keda: 'keda-redis' },
    also: ['oidc-client-secret', 'gvisor', 'stores-ca', 'result-volume', 'redis-sentinel'],
  },
};

/** Folder to hand to `kubectl kustomize`; with other components, one below `out` with a copy of the overlay's list. */
export function folderOf(name, out) {
  const { overlay, instead } = VARIANTS[name];
  if (!instead) return join(K8S, 'overlays', overlay);
  return copyOverlay(overlay, join(out, name), componentsOf(name));
}

/**
 * Writes a kustomization with the overlay's list and other components to a folder.
 * @param {Record<string, object>} [files] kustomizations and resources of the overlay to write instead of its own, by file name
 */
export function copyOverlay(overlay, folder, components, files = {}) {
  const source = join(K8S, 'overlays', overlay);
  const from = (path) => (path in files ? path : relative(folder, join(source, path)));
  const list = { ...overlayList(overlay), ...files['kustomization.yaml'] };
  mkdirSync(folder, { recursive: true });
  const copy = {
    ...list,
    resources: list.resources.map(from),
    components: components.map((name) => from(name === CLASSES ? CLASSES : `../../components/${name}`)),
  };
  for (const [file, content] of Object.entries({ ...files, 'kustomization.yaml': copy })) {
    const path = join(folder, file === CLASSES ? `${file}/kustomization.yaml` : file);
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, yaml.dump(content, { lineWidth: -1 }));
  }
  return folder;
}

/** Components that a list of names lacks; by default the unchecked ones of no variant. */
export function forgottenComponents(used = Object.keys(VARIANTS).flatMap(componentsOf)) {
  return readdirSync(join(K8S, 'components')).filter((component) => !used.includes(component));
}

/** Names of the components in a variant. */
export function componentsOf(name) {
  const { overlay, instead = {}, also = [] } = VARIANTS[name];
  const own = (overlayList(overlay).components ?? []).map((path) => path.split('/').at(-1));
  return [...own.map((component) => instead[component] ?? component), ...also];
}

/** The kustomization of an overlay. */
export const overlayList = (overlay) =>
  yaml.load(readFileSync(join(K8S, 'overlays', overlay, 'kustomization.yaml'), 'utf8'));
