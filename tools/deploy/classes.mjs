/**
 * `classes` of settings.yaml as a kustomize component: what differs in the pods of a class becomes patches of its Deployment and its
 * autoscaler. kustomize computes nothing, so the component is generated (`npm run deploy:generate`) next to settings.yaml. The chart
 * does the same by tools/deploy/chart/_helpers.tpl; `npm run check:deploy` compares them.
 */
import yaml from 'js-yaml';

/** Fields that the pod has under the same name. */
const POD_FIELDS = ['nodeSelector', 'tolerations', 'affinity', 'imagePullSecrets'];
const TOOL_SECRETS = '/run/secrets/tools';
/** Owner and group may read. */
const MODE = 0o440;

/** Names of the classes that settings may change, by the schema of the settings. */
export const classNames = (schema) =>
  Object.keys(schema.properties.classes.properties).filter((name) => name !== 'default');

/**
 * The kustomization of the component.
 * @param {Record<string, object>} classes of the settings
 * @param {string[]} names of all classes
 */
export function classComponent(classes, names) {
  const patches = names.flatMap((name) => {
    const fields = { ...classes.default, ...classes[name] };
    return Object.keys(fields).length === 0 ? [] : [deploymentPatch(name, fields), ...replicaPatches(name, fields)];
  });
  return {
    apiVersion: 'kustomize.config.k8s.io/v1alpha1',
    kind: 'Component',
    patches: patches.map(({ patch, ...target }) => ({
      ...target,
      patch: yaml.dump(patch, { lineWidth: -1, noRefs: true }),
    })),
  };
}

/** A strategic merge: lists with names are merged by them, and the class's items come first. */
function deploymentPatch(name, { env = {}, resources, replicas, podAnnotations, toolSecrets = [], ...fields }) {
  const variables = [
    ...Object.keys(env)
      .toSorted((a, b) => (a < b ? -1 : 1))
      .map((key) => ({ name: key, value: env[key], valueFrom: null })),
    ...toolSecrets.map((secret) => ({ name: `${secret.env}_FILE`, value: `${TOOL_SECRETS}/${secret.env}` })),
  ];
  const sources = toolSecrets.map((one) => ({
    secret: { name: one.secret, items: [{ key: one.key, path: one.env }] },
  }));
  const volume = { name: 'tool-secrets', projected: { defaultMode: MODE, sources } };
  const mount = { name: 'tool-secrets', mountPath: TOOL_SECRETS, readOnly: true };
  const container = {
    name,
    ...(variables.length > 0 && { env: variables }),
    ...(resources && { resources }),
    ...(sources.length > 0 && { volumeMounts: [mount] }),
  };
  const spec = {
    ...Object.fromEntries(POD_FIELDS.flatMap((key) => (key in fields ? [[key, fields[key]]] : []))),
    ...(Object.keys(container).length > 1 && { containers: [container] }),
    ...(sources.length > 0 && { volumes: [volume] }),
  };
  const template = {
    ...(podAnnotations && { metadata: { annotations: podAnnotations } }),
    ...(Object.keys(spec).length > 0 && { spec }),
  };
  return {
    patch: {
      apiVersion: 'apps/v1',
      kind: 'Deployment',
      metadata: { name },
      spec: {
        ...(Number.isInteger(replicas) && { replicas }),
        ...(Object.keys(template).length > 0 && { template }),
      },
    },
  };
}

/** Bounds of whichever autoscaler the class has: a target that does not exist is skipped. */
function replicaPatches(name, { replicas }) {
  if (typeof replicas !== 'object') return [];
  const replace = (path, value) => ({ op: 'replace', path, value });
  const { min, max } = replicas;
  return [
    {
      target: { kind: 'HorizontalPodAutoscaler', name },
      patch: [replace('/spec/minReplicas', min), replace('/spec/maxReplicas', max)],
    },
    {
      target: { kind: 'ScaledObject', name },
      patch: [
        replace('/spec/minReplicaCount', min),
        replace('/spec/maxReplicaCount', max),
        replace('/spec/fallback/replicas', min),
      ],
    },
  ];
}
