/** L49 to L51: the way in for callers of a production fleet, and settings that were never given. */
import { longestWork } from './life-rules.mjs';

/** Value of a field that a component leaves to settings.yaml. */
const UNSET = 'set-by-settings';
const seconds = (text) => Number(/^(\d+)s?$/.exec(text ?? '')?.[1] ?? Number.NaN);
const routes = (model) => [...model.of('Ingress'), ...model.of('HTTPRoute')];

/** Seconds after which a route gives up on a silent response; 0 means never. */
function waits(route) {
  if (route.kind === 'HTTPRoute') return route.spec.rules.map(({ timeouts }) => seconds(timeouts?.request));
  const { annotations = {} } = route.metadata;
  const idle = /idle_timeout\.timeout_seconds=(\d+)/.exec(
    annotations['alb.ingress.kubernetes.io/load-balancer-attributes'],
  );
  return [
    seconds(annotations['nginx.ingress.kubernetes.io/proxy-read-timeout']),
    seconds(annotations['haproxy.org/timeout-server']),
    seconds(idle?.[1]),
  ];
}

function leadsToGateway({ kind, spec }) {
  if (kind === 'HTTPRoute')
    return spec.rules.every(({ backendRefs }) => backendRefs.some(({ name }) => name === 'gateway'));
  return spec.rules.every(({ http }) => http.paths.every(({ backend }) => backend.service.name === 'gateway'));
}

export const ACCESS_RULES = {
  L49: (model) => {
    if (model.overlay !== 'prod') return [];
    const gateway = model.own.find(({ app }) => app === 'gateway');
    const ways = routes(model);
    const identities = ['GATEWAY_ADMIN_KEY_FILE', 'JWT_ISSUER'].filter((key) => gateway?.env.has(key));
    return [
      ...(identities.length > 0 ? [] : ['the gateway accepts no caller: use admin-key or jwt']),
      ...(ways.length === 1 ? [] : [`${ways.length} ways lead in: use either ingress or gateway-api`]),
      ...ways.filter((way) => !leadsToGateway(way)).map(({ kind }) => `${kind}: leads elsewhere than to the gateway`),
      ...model
        .of('Ingress')
        .filter(({ spec }) => !spec.rules.every(({ host }) => spec.tls?.some(({ hosts }) => hosts.includes(host))))
        .map(({ metadata }) => `${metadata.name}: a host without TLS`),
    ];
  },
  L50: (model) => {
    const gateway = model.own.find(({ app }) => app === 'gateway');
    return routes(model).flatMap((route) =>
      waits(route)
        .filter((wait) => !(wait === 0 || wait > longestWork(model, gateway)))
        .map((wait) => `${route.kind} ${route.metadata.name}: gives up after ${wait} s, before the longest call ends`),
    );
  },
  L51: (model) =>
    model.objects
      .filter((object) => JSON.stringify(object).includes(UNSET))
      .map(({ kind, metadata }) => `${kind} ${metadata.name}: a field was not set; is settings.yaml complete?`),
};
