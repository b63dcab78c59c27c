/** Where the model of an object is: package and export, by its apiVersion. */
const PACKAGES = {
  'keda.sh': '@kubernetes-models/keda/keda.sh',
  'monitoring.coreos.com': '@kubernetes-models/prometheus-operator/monitoring.coreos.com',
};

/** The one kind without a published model: its fields, as far as we use them. */
export const EXTERNAL_SECRET = `{
  apiVersion: 'external-secrets.io/v1';
  kind: 'ExternalSecret';
  metadata: { name: string; namespace?: string; labels?: Record<string, string> };
  spec: {
    refreshInterval: string;
    secretStoreRef: { kind: 'ClusterSecretStore' | 'SecretStore'; name: string };
    target: { name: string; creationPolicy: 'Owner' | 'Merge'; template?: { type: string } };
    data: { secretKey: string; remoteRef: { key: string; property: string } }[];
  };
}`;

/** @returns {string} module with the models of that version */
export function modelModule(apiVersion) {
  const [group, version] = apiVersion.includes('/') ? apiVersion.split('/') : [undefined, apiVersion];
  if (!group) return `kubernetes-models/${version}`;
  return `${PACKAGES[group] ?? `kubernetes-models/${group}`}/${version}`;
}
