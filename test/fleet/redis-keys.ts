/** Keys of Redis as the sources make them: who may touch them and what bounds them is compared with these. */
import { EPOCH_KEYS } from '@toolfleet/contracts/account';

/** A key of every kind the fleet has, and who may touch it. */
export const KEYS: Record<string, string[]> = {
  '{auth}:keys': ['gateway'],
  '{purge}:open': ['gateway'],
  'kl:abcdefgh': ['gateway'],
  'rl:acme:calculator': ['gateway'],
  'rc:hash': ['gateway'],
  '{kept:acme}:sizes': ['gateway'],
  'lc:fleet': ['gateway'],
  'ms:hash': ['gateway'],
  'probe:http://api': ['gateway'],
  'lc:t:acme': ['gateway'],
  '{call:c1}:record': ['gateway'],
  '{i:hash}': ['gateway'],
  '{c:c1}': ['gateway', 'mcp-executor', 'openapi-executor', 'builtin-files', 'builtin-agent'],
  '{fleet}:tool-calls:wait': ['gateway'],
  '{fleet}:declarations:acme': ['gateway'],
  '{fleet}:declarations:acme:owners': ['gateway'],
  '{fleet}:agent-runs:wait': ['gateway', 'builtin-agent'],
  '{fleet}:python-runs:wait': ['gateway', 'python-sandbox'],
  '{fleet}:python-runs:slots': ['gateway', 'python-sandbox'],
  '{fleet}:program-runs:wait': ['gateway', 'python-sandbox'],
  '{fleet-01}:tool-calls:wait': ['gateway'],
  '{fleet-01}:agent-runs:wait': ['gateway', 'builtin-agent'],
  '{fleet-01}:python-runs:wait': ['gateway', 'python-sandbox'],
  '{fleet-01}:program-runs:wait': ['gateway', 'python-sandbox'],
  '{fleet-x}:python-runs:wait': [],
  '{s:acme:ann:s1}': ['python-sandbox'],
  '{s:acme:}:bytes': ['python-sandbox'],
  '{registry}:tools': ['registry'],
  '{b:acme}:scopes': ['budget'],
  'budget:tenants': ['budget'],
  '{store}:epoch': ['budget'],
  ...Object.fromEntries(
    Object.entries(EPOCH_KEYS).map(([key, services]) => [
      key,
      [
        'budget',
        ...services.flatMap((name) => (name === 'builtin-executor' ? ['builtin-files', 'builtin-agent'] : name)),
      ],
    ]),
  ),
  anything: [],
};
/** Starts of texts in the sources that look like keys and are not. */
export const NOT_KEYS = [
  // scopes of a budget, its shared leases, and faults of its messages
  ...['agent:', 'call:', 'day:', 'lease:', 'request:', 'task:', 'invalid:', 'unreadable:'],
  // ids of limits of requests, with keys that begin with kl:
  'address:',
  // fields of the record of a purge
  ...['done:', 'counts:', 'remaining:'],
  // who made a call, a field of its record
  ...['key:', 'user:'],
  // names of definitions of MCP servers
  ...['prompt:', 'resource:', 'skill:'],
  // addresses of files, and the directory in an issuer of Entra ID
  ...['file:', '{tenantid}'],
  // a field of the hash of fair shares, and an end of the names of queues
  ...['s:', 'large:'],
  // schemes of URLs and imports
  ...['data:', 'http:', 'https:', 'node:', 'stdio:', 'urn:'],
  // tags of YAML, properties of HTML, ids of schemas, marks of sealed texts, signers and approvals
  ...['approval:', 'article:', 'di:', 'nats:', 'og:', 'schema:', 'sealed:', 'tag:'],
  // ids of users that are services
  'service:',
];
/** Starts of keys that a source text makes: literals such as `{c:…`, 'lc:fleet' or `rl:${…`. */
export function keyStarts(text: string): string[] {
  const code = text.replace(/\/\*[\s\S]*?\*\//g, '').replace(/^\s*(?:\/\/|--).*$/gm, '');
  return [...code.matchAll(/[`'"](\{[a-z]+[:}]|[a-z]+:)(?=[$a-z{:`'"])/g)].map(([, start]) => start!);
}
