/** L27 to L37 and L48: names that have to exist, ways through the network, and where secrets lie. */
import { matches } from './model.mjs';

/** What "the public network" must leave out: metadata, pods, services, this host. */
const PRIVATE = {
  '0.0.0.0/0': ['10.0.0.0/8', '100.64.0.0/10', '127.0.0.0/8', '169.254.0.0/16', '172.16.0.0/12', '192.168.0.0/16'],
  '::/0': ['::1/128', 'fc00::/7', 'fe80::/10'],
};
/** Of Redis, with and without TLS, and of Sentinels. */
const REDIS_PORTS = new Set([6379, 6380, 26379]);
const SECRET_NAME = /(PASSWORD|SECRET|TOKEN|API_KEY|PEPPER|PRIVATE_KEY)/i;
const SECRET_TEXT =
  /:\/\/[^/\s:@"]*:[^@\s$"/]+@|-----BEGIN (?!CERTIFICATE)|(?:password|secret|token|pepper|api_key)"?\s*[:=]\s*"?[A-Za-z0-9+/_-]{16,}/i;
/** How an address of a store says that the way to it is encrypted and the other end checked. */
const OVER_TLS = { 'nats-url': /^tls:/, 'redis-scheme': /^rediss(\+|$)/, 'database-url': /[?&]sslmode=verify-full\b/ };
const MOST_OPEN_MODE = 0o440;
const NAMESPACE_NAME = 'kubernetes.io/metadata.name';

const each = (check) => (model) =>
  model.workloads.flatMap((workload) => check(workload, model).map((fault) => `${workload.name}: ${fault}`));
const namedPort = ({ containers }, port) =>
  containers.some(({ ports = [] }) => ports.some(({ name, containerPort }) => port === name || port === containerPort));
/** Names of the namespaces that a peer admits; empty for all of them. */
const namespacesOf = ({ namespaceSelector }) =>
  [
    namespaceSelector?.matchLabels?.[NAMESPACE_NAME] ?? [],
    (namespaceSelector?.matchExpressions ?? []).flatMap(({ key, operator, values }) =>
      key === NAMESPACE_NAME && operator === 'In' ? values : [],
    ),
  ].flat();
const policies = (model) => model.of('NetworkPolicy');
const peersOf = ({ spec }) => [
  ...(spec.ingress ?? []).flatMap((rule) => rule.from ?? []),
  ...(spec.egress ?? []).flatMap((rule) => rule.to ?? []),
];

export const WIRING_RULES = {
  L27: each(({ pod, containers }, model) => {
    const maps = new Map(model.of('ConfigMap').map(({ metadata, data }) => [metadata.name, data ?? {}]));
    const named = [
      ...containers.flatMap(({ envFrom = [] }) => envFrom.flatMap(({ configMapRef }) => configMapRef?.name ?? [])),
      ...(pod.volumes ?? []).flatMap(({ configMap }) => configMap?.name ?? []),
    ];
    const refs = containers.flatMap(({ env = [] }) => env.flatMap(({ valueFrom }) => valueFrom?.configMapKeyRef ?? []));
    return [
      ...named.filter((name) => !maps.has(name)).map((name) => `ConfigMap ${name} does not exist`),
      ...refs
        .filter(({ name, key }) => !(key in (maps.get(name) ?? {})))
        .map(({ name, key }) => `ConfigMap ${name} has no key ${key}`),
    ];
  }),
  L28: (model) =>
    model.own.flatMap(({ name, app, containers }) => {
      const known = model.defaults[app] ?? new Map();
      const maps = new Map(model.of('ConfigMap').map(({ metadata, data }) => [metadata.name, data ?? {}]));
      const env = containers[0].env ?? [];
      const fromMaps = (containers[0].envFrom ?? []).flatMap(({ configMapRef }) =>
        Object.keys(maps.get(configMapRef?.name) ?? {}),
      );
      // Parts of other values, and secrets of APIs behind tools that definitions name as ${VAR}.
      const isPart = (key) => env.some(({ value }) => value?.includes(`$(${key})`));
      const isUpstreamSecret = ({ value }) => value?.startsWith('/run/secrets/tools/');
      return [
        ...env.filter((entry) => !isPart(entry.name) && !isUpstreamSecret(entry)).map((entry) => entry.name),
        ...fromMaps,
      ]
        .filter((key) => !known.has(key))
        .map((key) => `${name}: ${key} is not a key of ${app}`);
    }),
  L29: (model) =>
    [...model.of('Service'), ...model.of('PodMonitor'), ...model.of('PodDisruptionBudget'), ...policies(model)].flatMap(
      ({ kind, metadata, spec }) => {
        if (kind === 'Service' && spec.type === 'ExternalName') return [];
        const selector = kind === 'Service' ? { matchLabels: spec.selector } : (spec.selector ?? spec.podSelector);
        return model.workloads.some(({ labels }) => matches(selector, labels))
          ? []
          : [`${kind} ${metadata.name} selects no pod`];
      },
    ),
  L30: (model) =>
    model.of('Service').flatMap(({ metadata, spec }) =>
      (spec.ports ?? [])
        .filter(({ targetPort }) => {
          const selected = model.workloads.filter(({ labels }) => matches({ matchLabels: spec.selector }, labels));
          return typeof targetPort !== 'string' || !selected.every((workload) => namedPort(workload, targetPort));
        })
        .map(({ targetPort }) => `${metadata.name}: targetPort ${targetPort} is not a named port`),
    ),
  L31: (model) =>
    policies(model).flatMap((policy) =>
      peersOf(policy)
        .filter(({ ipBlock, podSelector, namespaceSelector }) => {
          if (ipBlock) return false;
          if (namespaceSelector) return namespacesOf({ namespaceSelector }).length === 0;
          return !model.workloads.some(({ labels }) => matches(podSelector, labels));
        })
        .map((peer) => `${policy.metadata.name}: nothing matches ${JSON.stringify(peer)}`),
    ),
  L32: (model) =>
    policies(model).flatMap(({ metadata, spec }) => {
      const selected = model.workloads.filter(({ labels }) => matches(spec.podSelector, labels));
      const incoming = (spec.ingress ?? []).flatMap(({ ports = [] }) => ports.map(({ port }) => [selected, port]));
      const outgoing = (spec.egress ?? []).flatMap(({ to = [], ports = [] }) =>
        to
          .filter(({ podSelector, namespaceSelector }) => podSelector && !namespaceSelector)
          .flatMap(({ podSelector }) =>
            ports.map(({ port }) => [model.workloads.filter(({ labels }) => matches(podSelector, labels)), port]),
          ),
      );
      return [...incoming, ...outgoing]
        .filter(([workloads, port]) => !workloads.some((workload) => namedPort(workload, port)))
        .map(([, port]) => `${metadata.name}: no pod listens on ${port}`);
    }),
  L33: (model) => {
    const denies = policies(model).some(
      ({ spec }) =>
        Object.keys(spec.podSelector ?? {}).length === 0 &&
        ['Ingress', 'Egress'].every((type) => spec.policyTypes?.includes(type)) &&
        !spec.ingress?.length &&
        !spec.egress?.length,
    );
    return denies ? [] : ['no policy denies both directions by default'];
  },
  L34: (model) =>
    model.own
      .filter(({ app }) => app === 'python-sandbox')
      .flatMap(({ labels }) => policies(model).filter(({ spec }) => matches(spec.podSelector, labels)))
      .flatMap(({ metadata, spec }) =>
        (spec.egress ?? [])
          .filter(({ to = [], ports = [] }) => {
            const isDns =
              ports.every(({ port }) => port === 53) && to.every((peer) => namespacesOf(peer).join() === 'kube-system');
            const isRedis =
              ports.every(({ port }) => REDIS_PORTS.has(port)) &&
              to.every(({ ipBlock, podSelector }) =>
                ipBlock ? !(ipBlock.cidr in PRIVATE) : podSelector?.matchLabels?.['app.kubernetes.io/name'] === 'redis',
              );
            return to.length === 0 || ports.length === 0 || !(isDns || isRedis);
          })
          .map(() => `${metadata.name} lets the sandbox reach more than Redis and DNS`),
      ),
  L35: (model) =>
    policies(model).flatMap(({ metadata, spec }) =>
      (spec.egress ?? [])
        .flatMap(({ to = [] }) => to.flatMap(({ ipBlock }) => ipBlock ?? []))
        .flatMap(({ cidr, except = [] }) => (PRIVATE[cidr] ?? []).filter((range) => !except.includes(range)))
        .map((range) => `${metadata.name}: public egress includes ${range}`),
    ),
  L36: each(({ pod, containers }) => [
    ...containers
      .filter(
        ({ env = [], envFrom = [] }) =>
          env.some(({ valueFrom }) => valueFrom?.secretKeyRef) || envFrom.some(({ secretRef }) => secretRef),
      )
      .map(({ name }) => `${name} takes a secret as variable`),
    ...(pod.volumes ?? [])
      .filter(({ secret, projected }) => {
        const mode = (secret ?? projected)?.defaultMode ?? 0o644;
        return (secret || projected) && !(mode <= MOST_OPEN_MODE && (mode & 0o337) === 0);
      })
      .map(({ name }) => `volume ${name} is readable by others (defaultMode above 0440)`),
  ]),
  L37: (model) => [
    ...model.workloads.flatMap(({ name, containers }) =>
      containers.flatMap(({ env = [], args = [], command = [] }) => [
        ...env
          .filter(
            (entry) =>
              entry.value &&
              ((SECRET_NAME.test(entry.name) && !/_FILE$/.test(entry.name)) || SECRET_TEXT.test(entry.value)),
          )
          .map((entry) => `${name}: ${entry.name} looks like a secret`),
        ...[...args, ...command]
          .filter((arg) => SECRET_TEXT.test(arg))
          .map(() => `${name}: an argument looks like a secret`),
      ]),
    ),
    ...model.of('ConfigMap').flatMap(({ metadata, data = {} }) =>
      Object.entries(data)
        .filter(([, text]) => SECRET_TEXT.test(text))
        .map(([key]) => `ConfigMap ${metadata.name}: ${key} looks like a secret`),
    ),
  ],
  L48: (model) => {
    if (model.overlay !== 'prod') return [];
    const stores =
      model.of('ConfigMap').find(({ metadata }) => metadata.name.startsWith('toolfleet-stores'))?.data ?? {};
    return Object.entries(OVER_TLS)
      .filter(([key, safe]) => !safe.test(stores[key] ?? ''))
      .map(([key]) => `${key} does not lead over verified TLS`);
  },
};
