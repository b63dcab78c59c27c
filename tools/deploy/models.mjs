/** Where the model of an object is: package and export, by its apiVersion. */
const PACKAGES = {
  'keda.sh': '@kubernetes-models/keda/keda.sh',
  'monitoring.coreos.com': '@kubernetes-models/prometheus-operator/monitoring.coreos.com',
};

/** Kinds without a published model, by apiVersion: the fields that we use. */
export const OWN_MODELS = {
  'external-secrets.io/v1': `{
  apiVersion: 'external-secrets.io/v1';
  kind: 'ExternalSecret';
  metadata: { name: string; namespace?: string; labels?: Record<string, string> };
  spec: {
    refreshInterval: string;
    secretStoreRef: { kind: 'ClusterSecretStore' | 'SecretStore'; name: string };
    target: { name: string; creationPolicy: 'Owner' | 'Merge'; template?: { type: string } };
    data: { secretKey: string; remoteRef: { key: string; property: string } }[];
  };
}`,
  'gateway.networking.k8s.io/v1': `{
  apiVersion: 'gateway.networking.k8s.io/v1';
  kind: 'HTTPRoute';
  metadata: { name: string; namespace?: string; labels?: Record<string, string> };
  spec: {
    parentRefs: { name: string; namespace?: string; sectionName?: string; port?: number }[];
    hostnames: string[];
    rules: {
      matches: { path: { type: 'Exact' | 'PathPrefix' | 'RegularExpression'; value: string } }[];
      timeouts?: { request?: string; backendRequest?: string };
      backendRefs: { name: string; port: number }[];
    }[];
  };
}`,
};

/** @returns {string} module with the models of that version */
export function modelModule(apiVersion) {
  const [group, version] = apiVersion.includes('/') ? apiVersion.split('/') : [undefined, apiVersion];
  if (!group) return `kubernetes-models/${version}`;
  return `${PACKAGES[group] ?? `kubernetes-models/${group}`}/${version}`;
}
