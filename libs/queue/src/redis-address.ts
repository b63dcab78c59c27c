/**
 * The forms of `REDIS_URL`:
 * - `redis://user:password@host:6379/0`: one server;
 * - `redis+sentinel://host-a:26379,host-b:26379/master-name`, or `?name=master-name`: the primary of that name (default `mymaster`)
 *   according to these Sentinels; a second path segment is the database;
 * - `redis+cluster://host-a:6379,host-b:6379`: Redis Cluster, discovered from any of these nodes.
 *
 * `rediss…` is the same over TLS, including Sentinels. The login precedes the first host and may be repeated before other hosts.
 */

/** A parsed `REDIS_URL`. */
export interface RedisAddress {
  kind: 'single' | 'cluster' | 'sentinel';
  tls: boolean;
  nodes: { host: string; port: number }[];
  username?: string;
  password?: string;
  db?: number;
  /** Name of the primary at the Sentinels. */
  master?: string;
}

const DEFAULT_PORTS = { single: 6379, cluster: 6379, sentinel: 26_379 };
const DEFAULT_MASTER = 'mymaster';
const FORM = /^(rediss?)(?:\+(cluster|sentinel))?:\/\/(?:([^@/?]*)@)?([^?]+)(?:\?(.*))?$/;

/** @throws Error with `startRefused`, because retrying the start cannot repair an invalid address */
export function parseAddress(url: string): RedisAddress {
  const match = FORM.exec(url.trim());
  if (!match) throw refused(url, 'not a Redis address');
  const [, scheme, form, login, rest = '', search] = match;
  const kind = (form ?? 'single') as RedisAddress['kind'];
  // Each further node may repeat the scheme and the login.
  const [hosts = '', ...path] = rest.replace(/,\s*(?:[a-z+]+:\/\/)?(?:[^@/,]*@)?/g, ',').split('/');
  const [username, password] = splitLogin(login);
  return {
    kind,
    tls: scheme === 'rediss',
    nodes: hosts.split(',').map((host) => parseHost(url, host.trim(), DEFAULT_PORTS[kind])),
    username: username || undefined,
    password: password || undefined,
    ...target(
      url,
      kind,
      path.filter((segment) => segment !== ''),
      new URLSearchParams(search),
    ),
  };
}

/** The address without credentials, for messages and logs. */
export function publicAddress(url: string): string {
  return url.replace(/(^|\/\/|,)[^/@,]*@/g, '$1');
}

/** Database and name of the primary. */
function target(
  url: string,
  kind: RedisAddress['kind'],
  path: string[],
  search: URLSearchParams,
): Pick<RedisAddress, 'db' | 'master'> {
  const known = kind === 'sentinel' ? ['name'] : [];
  const unknown = [...search.keys()].filter((key) => !known.includes(key));
  if (unknown.length > 0) throw refused(url, `unknown parameter ${unknown.join(', ')} in the Redis address`);
  const named = search.get('name');
  const master = kind !== 'sentinel' ? undefined : (named ?? decodeURIComponent(path.shift() ?? DEFAULT_MASTER));
  const [db, ...more] = path;
  if (db !== undefined && kind === 'cluster') throw refused(url, 'Redis Cluster has no numbered databases');
  if (more.length > 0 || (db !== undefined && !/^\d{1,5}$/.test(db))) {
    throw refused(url, `not a database number in the Redis address: ${path.join('/')}`);
  }
  return { master, db: db === undefined ? undefined : Number(db) };
}

function splitLogin(login: string | undefined): [username: string, password: string] {
  if (login === undefined) return ['', ''];
  const colon = login.indexOf(':');
  if (colon < 0) return [decodeURIComponent(login), ''];
  return [decodeURIComponent(login.slice(0, colon)), decodeURIComponent(login.slice(colon + 1))];
}

function parseHost(url: string, text: string, defaultPort: number): { host: string; port: number } {
  const match = /^(\[[^\]]+\]|[^:]+)(?::(\d+))?$/.exec(text);
  const port = match?.[2] === undefined ? defaultPort : Number(match[2]);
  if (!match || port < 1 || port > 65_535) throw refused(url, 'a host of the Redis address cannot be read');
  return { host: (match[1] as string).replace(/^\[|\]$/g, ''), port };
}

function refused(url: string, why: string): Error {
  return Object.assign(new Error(`REDIS_URL: ${why} (${publicAddress(url)})`), { startRefused: true });
}
