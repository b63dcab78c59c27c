/**
 * deploy/nats.conf on a real server: what each user may publish and read is compared with a table written here, over every
 * subject of the catalogue, every user's inbox and the subjects of two tenants. Everything that is not in the table must be refused.
 */
import type { ChildProcess } from 'node:child_process';
import { globSync, readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { connect, type ConnectionOptions, type NatsConnection } from 'nats';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { EVENTS } from '@toolfleet/contracts/events';
import { REQUESTS } from '@toolfleet/contracts/requests';
import {
  answerSubject,
  apiSubject,
  breakerSubject,
  builtinSubject,
  eventReportSubject,
  eventSubject,
  progressSubject,
  registerSubject,
  resultSubject,
  resumeSubject,
  SUBJECTS,
} from '@toolfleet/contracts/subjects';
import { TOOLSETS } from '@toolfleet/contracts/tool-definition';
import { endChild, eventually, freePort, spawnChild } from '@toolfleet/testing';

const CONF = fileURLToPath(new URL('../deploy/nats.conf', import.meta.url));
/** Served by records, for gateways. */
const APPROVALS = [
  ...['ask', 'show', 'list', 'decide', 'begin', 'end', 'due'].map((verb) => `records.approval.${verb}`),
  'records.grant.use',
];
const CALL_SUBJECTS = ['tool.call', 'tool.batch', 'tool.list', 'tool.cancel'] as const;
const INBOXED = [
  'gateway',
  'registry',
  'budget',
  'records',
  'identity',
  'mcp-executor',
  'openapi-executor',
  'builtin-compute',
  'builtin-web',
  'builtin-files',
  'builtin-agent',
  'acme',
];

/** Reports of events: of each service that has some, and of users that have none. */
const EVENT_REPORTS = [
  ...new Set<string>(Object.values(EVENTS).flatMap(({ from }) => from)),
  ...['records', 'builtin-web', 'acme'],
].map(eventReportSubject);

/** Prefixes: no message is sent to them literally. */
const FAMILIES: ReadonlySet<string> = new Set([
  'api',
  'breaker.changed',
  'event',
  'exec.builtin',
  'exec.mcp.resume',
  'exec.progress',
  'mcp.answer',
  'records.event',
  'registry.definition.register',
  'tool.result',
]);

/** Owners of routes, and one service that has none: gateways may ask it, and it reads nothing. */
const QUESTIONS = ['registry', 'budget', 'records', 'identity', 'web'].map((owner) => apiSubject(owner, 'listThings'));

const REQUESTED = Object.keys(REQUESTS);
const ALL_SUBJECTS = [...Object.values(SUBJECTS), ...REQUESTED];

/** Subjects as they are used: families (`exec.builtin`, `tool.result`) with one member. */
const PROBES = [
  ...ALL_SUBJECTS.filter((subject) => !FAMILIES.has(subject)),
  progressSubject('g1', 't1'),
  answerSubject('g1', 'q1'),
  resumeSubject('e1'),
  ...['gateway', 'mcp-executor', 'openapi-executor'].map(breakerSubject),
  ...EVENT_REPORTS,
  ...QUESTIONS,
  ...TOOLSETS.map(builtinSubject),
  ...TOOLSETS.map(registerSubject),
  ...['acme', 'evil'].flatMap((tenant) => [
    ...CALL_SUBJECTS.map((subject) => `${subject}.${tenant}`),
    resultSubject(tenant, 'c1'),
    eventSubject(tenant, 'call.finished'),
  ]),
  ...INBOXED.map((user) => `_INBOX.${user}.x`),
  '$SYS.REQ.SERVER.PING',
  'anything',
];

interface Rights {
  publish: string[];
  read: string[];
}

const EXECUTORS = (own: string[], publish: string[] = []): Rights => ({
  publish,
  read: [...own, 'exec.cancel'],
});
const builtinToolset = (toolset: string, more: string[] = [], served: string[] = []): Rights => ({
  publish: [`registry.definition.register.${toolset}`, 'exec.progress.g1.t1', 'fleet.status', ...more],
  read: [`exec.builtin.${toolset}`, 'exec.cancel', 'registry.definition.announce', ...served],
});

/** In addition, every user reads its own inbox. */
const RIGHTS: Record<string, Rights> = {
  gateway: {
    publish: [
      ...QUESTIONS,
      'exec.mcp',
      'exec.mcp.resume.e1',
      'exec.mcp.watch',
      'exec.openapi',
      'exec.builtin.compute',
      'exec.builtin.web',
      'exec.builtin.files',
      'exec.builtin.agent',
      'exec.cancel',
      'registry.definition.get',
      'registry.definition.list',
      'registry.definition.retire',
      'registry.toolset.get',
      'registry.purge',
      'budget.reserve',
      'budget.settle',
      'budget.release',
      'budget.usage',
      'budget.limits',
      'budget.set',
      'budget.remove',
      'budget.purge',
      'records.append',
      'records.list',
      'records.body',
      'records.facts',
      ...APPROVALS,
      'records.purge',
      'identity.http',
      'identity.client.get',
      'identity.sign_out',
      'identity.session.live',
      'identity.session.get',
      'identity.session.revoke',
      'identity.grant.find',
      'identity.grant.put',
      'identity.grant.authorize',
      'identity.grant.finish',
      'identity.grant.list',
      'identity.grant.revoke',
      'identity.purge',
      'records.event.gateway',
      'workspace.purge',
      'tool.result.acme.c1',
      'tool.result.evil.c1',
      'mcp.answer.g1.q1',
      'mcp.cancel',
      'mcp.session',
      'key.revoked',
      'breaker.changed.gateway',
      'fleet.status',
    ],
    read: [
      ...CALL_SUBJECTS,
      'tool.spend',
      ...CALL_SUBJECTS.flatMap((subject) => [`${subject}.acme`, `${subject}.evil`]),
      'registry.definition.changed',
      'registry.toolset.changed',
      'breaker.changed.gateway',
      'exec.progress.g1.t1',
      'fleet.status',
      'mcp.answer.g1.q1',
      'mcp.cancel',
      'mcp.session',
      'mcp.updated',
      'key.revoked',
      'identity.grant.changed',
      'identity.user.changed',
    ],
  },
  registry: {
    publish: [
      'exec.mcp.discover',
      'registry.definition.changed',
      'registry.definition.announce',
      'registry.toolset.changed',
      'records.event.registry',
      'fleet.status',
    ],
    read: [
      'api.registry.listThings',
      'registry.definition.get',
      'registry.definition.list',
      'registry.definition.retire',
      ...TOOLSETS.map(registerSubject),
      'registry.toolset.get',
      'registry.purge',
      'exec.mcp.changed',
    ],
  },
  budget: {
    publish: ['records.event.budget', 'fleet.status'],
    read: [
      'api.budget.listThings',
      'budget.reserve',
      'budget.settle',
      'budget.release',
      'budget.usage',
      'budget.limits',
      'budget.set',
      'budget.remove',
      'budget.purge',
    ],
  },
  records: {
    publish: ['fleet.status', 'event.acme.call.finished', 'event.evil.call.finished'],
    read: [
      'api.records.listThings',
      'records.append',
      'records.list',
      'records.body',
      'records.facts',
      'records.purge',
      ...EVENT_REPORTS,
      ...APPROVALS,
    ],
  },
  identity: {
    publish: ['identity.grant.changed', 'identity.user.changed', 'fleet.status'],
    read: [
      'api.identity.listThings',
      'identity.http',
      'identity.client.get',
      'identity.sign_out',
      'identity.session.live',
      'identity.session.get',
      'identity.session.revoke',
      'identity.grant.find',
      'identity.grant.put',
      'identity.grant.authorize',
      'identity.grant.finish',
      'identity.grant.list',
      'identity.grant.revoke',
      'identity.grant.token',
      'identity.purge',
    ],
  },
  'mcp-executor': EXECUTORS(
    [
      'exec.mcp',
      'exec.mcp.resume.e1',
      'exec.mcp.discover',
      'exec.mcp.watch',
      'exec.mcp.claim',
      'breaker.changed.mcp-executor',
      'identity.grant.changed',
    ],
    [
      'exec.mcp.changed',
      'exec.mcp.claim',
      'mcp.updated',
      'exec.progress.g1.t1',
      'breaker.changed.mcp-executor',
      'records.event.mcp-executor',
      'fleet.status',
      'identity.grant.token',
    ],
  ),
  'openapi-executor': EXECUTORS(
    ['exec.openapi', 'breaker.changed.openapi-executor', 'identity.grant.changed'],
    ['breaker.changed.openapi-executor', 'identity.grant.token', 'records.event.openapi-executor', 'fleet.status'],
  ),
  'builtin-compute': builtinToolset('compute'),
  'builtin-web': builtinToolset('web'),
  'builtin-files': builtinToolset('files', [], ['workspace.purge']),
  'builtin-agent': builtinToolset('agent', ['tool.call', 'tool.list', 'tool.spend']),
  acme: {
    publish: ['tool.call.acme', 'tool.batch.acme', 'tool.list.acme', 'tool.cancel.acme'],
    read: ['tool.result.acme.c1', 'event.acme.call.finished'],
  },
};

/** As whom the processes of an app connect. */
const USERS_OF: Record<string, string[]> = {
  gateway: ['gateway'],
  registry: ['registry'],
  budget: ['budget'],
  records: ['records'],
  identity: ['identity'],
  'mcp-executor': ['mcp-executor'],
  'openapi-executor': ['openapi-executor'],
  'builtin-executor': TOOLSETS.map((toolset) => `builtin-${toolset}`),
  'python-sandbox': [],
};

/** Texts of the sources below a folder, without specs. */
function sourcesOf(folder: string): string[] {
  const root = fileURLToPath(new URL(`../${folder}`, import.meta.url));
  return readdirSync(root, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.ts') && !/\.(?:spec|fixture|d)\.ts$/.test(name))
    .map((name) => readFileSync(`${root}/${name}`, 'utf8'));
}

/** Keys of SUBJECTS by the functions that make subjects of them. */
const MAKERS = new Map(
  [
    ...readFileSync(new URL('../libs/contracts/src/subjects.ts', import.meta.url), 'utf8').matchAll(
      /export function (\w+)\([^{]*\{[^}]*?SUBJECTS\.(\w+)/g,
    ),
  ].map(([, name, key]) => [name!, key!]),
);

/** Subjects of `REQUESTS` that a source text uses. */
const requestsIn = (text: string): string[] => REQUESTED.filter((subject) => text.includes(`'${subject}'`));

/** Keys of SUBJECTS that a source text uses, itself or by a function. */
function subjectKeysIn(text: string): string[] {
  const calls = [...text.matchAll(/\b(\w+)\(/g)].flatMap(([, name]) => MAKERS.get(name!) ?? []);
  return [...[...text.matchAll(/\bSUBJECTS\.(\w+)/g)].map((match) => match[1]!), ...calls];
}

/**
 * Subjects that a source text writes itself, where they have no row in the table of rights. Routes of HTTP that the console requests,
 * have a space; no subject has one.
 */
function literalSubjectsIn(text: string): string[] {
  const sends = /(?:\.(?:publish|request|subscribe)|@Endpoint)(?:<[^()]*>)?\(\s*(['"`])(?!\$\{)([^'"`\s]*)\1/g;
  return [...text.matchAll(sends)].map((match) => match[2]!).filter((subject) => !(subject in REQUESTS));
}

/** `NATS_<USER>_PASSWORD`; a tenant's is `NATS_TENANT_<NAME>_PASSWORD`. */
const passwords = Object.fromEntries(
  Object.keys(RIGHTS).map((user) => {
    const name = user.toUpperCase().replaceAll('-', '_');
    return [`NATS_${user === 'acme' ? 'TENANT_' : ''}${name}_PASSWORD`, `pw${user.replaceAll('-', '')}`];
  }),
);

let server: ChildProcess;
let port: number;
const open: NatsConnection[] = [];

async function as(user: string, more: ConnectionOptions = {}): Promise<NatsConnection> {
  const options = { servers: `127.0.0.1:${port}`, user, pass: `pw${user.replaceAll('-', '')}`, reconnect: false };
  const connection = await connect({ ...options, inboxPrefix: `_INBOX.${user}`, ...more });
  open.push(connection);
  return connection;
}

/** What the server refuses to this connection from now on, as `publish <subject>` and `subscription <subject>`. */
function refusals(connection: NatsConnection): Set<string> {
  const refused = new Set<string>();
  void (async () => {
    for await (const { permissionContext } of connection.status()) {
      if (permissionContext) refused.add(`${permissionContext.operation} ${permissionContext.subject}`);
    }
  })();
  return refused;
}

/** Tries every probe; the subjects that were not refused. */
async function allowed(user: string, probes: readonly string[]): Promise<Rights> {
  const connection = await as(user);
  const refused = refusals(connection);
  for (const subject of probes) {
    connection.publish(subject);
    connection.subscribe(subject, { callback: () => undefined });
  }
  await connection.flush();
  await connection.flush();
  await new Promise((resolve) => setImmediate(resolve));
  return {
    publish: probes.filter((subject) => !refused.has(`publish ${subject}`)),
    read: probes.filter((subject) => !refused.has(`subscription ${subject}`)),
  };
}

beforeAll(async () => {
  port = await freePort();
  server = spawnChild('nats-server', ['-c', CONF, '-a', '127.0.0.1', '-p', String(port)], {
    env: { ...process.env, ...passwords },
    stdio: 'ignore',
  });
  await eventually('nats-server is up', async () => {
    if (server.exitCode !== null) throw new Error('nats-server refused deploy/nats.conf');
    return as('budget').then(
      () => true,
      () => false,
    );
  });
});
afterAll(async () => {
  await Promise.all(open.map((connection) => connection.close()));
  await endChild(server);
});

describe('deploy/nats.conf', () => {
  it.each(Object.entries(RIGHTS))('%s may do this and nothing else', async (user, rights) => {
    const found = await allowed(user, PROBES);
    expect(found.publish.toSorted()).toEqual(rights.publish.toSorted());
    expect(found.read.toSorted()).toEqual([...rights.read, `_INBOX.${user}.x`].toSorted());
  });

  it('gives every subject of the catalogue one side that sends and one that serves', () => {
    // announced definitions come from builtin-executor; MCP and OpenAPI ones are the registry's own
    const has = (right: string, subject: string) =>
      FAMILIES.has(subject) ? right.startsWith(`${subject}.`) : right === subject;
    for (const subject of ALL_SUBJECTS) {
      // callers without a tenant's user (operators, local tools) have no user in this file
      const external = subject === 'tool.batch' || subject === 'tool.cancel';
      expect(
        external || Object.values(RIGHTS).some(({ publish }) => publish.some((right) => has(right, subject))),
        `sends ${subject}`,
      ).toBe(true);
      expect(
        Object.values(RIGHTS).some(({ read }) => read.some((right) => has(right, subject))),
        `serves ${subject}`,
      ).toBe(true);
    }
  });

  it.each(Object.entries(USERS_OF))('names every subject that the sources of %s use', (app, users) => {
    const rights = users.flatMap((user) => [...RIGHTS[user]!.publish, ...RIGHTS[user]!.read]);
    const texts = sourcesOf(`apps/${app}/src`);
    const used = new Set(texts.flatMap(subjectKeysIn));
    const named = [...used].map((key) => SUBJECTS[key as keyof typeof SUBJECTS]);
    const subjects = [...named, ...texts.flatMap(requestsIn)];
    expect(
      subjects.filter((subject) => !rights.some((right) => right === subject || right.startsWith(`${subject}.`))),
    ).toEqual([]);
  });

  it('knows every subject that is sent or served, because none is written outside the catalogue', () => {
    const folders = globSync('{apps,libs,libs/kits}/*/src', { cwd: fileURLToPath(new URL('..', import.meta.url)) });
    // The client library runs at callers; the servers do not let it send anything but `tool.*`.
    const texts = folders.filter((folder) => folder !== 'libs/client/src').flatMap(sourcesOf);
    expect(texts.flatMap(literalSubjectsIn)).toEqual([]);
    expect([...MAKERS.keys()]).toEqual(expect.arrayContaining(['builtinSubject', 'registerSubject', 'answerSubject']));
    const planted =
      "nats.publish('cache.flush', {}); nats.request<Reply<Json>>(\n  `cache.${name}`, {}); @Endpoint('cache.get') @Endpoint('budget.usage')";
    expect(literalSubjectsIn(planted)).toEqual(['cache.flush', 'cache.${name}', 'cache.get']);
    expect(subjectKeysIn('nats.publish(registerSubject(toolset), {})')).toEqual(['definitionRegister']);
  });

  it('refuses a wildcard that covers subjects a user may not read', async () => {
    const wide = [
      '>',
      '*',
      'api.>',
      'api.*.listThings',
      '_INBOX.>',
      '_INBOX.*.x',
      'tool.>',
      'tool.result.>',
      'exec.>',
      'budget.>',
      'registry.>',
      '$SYS.>',
    ];
    for (const user of Object.keys(RIGHTS)) expect((await allowed(user, wide)).read, user).toEqual([]);
  });

  it('carries a request, its acknowledgement and its answer between two users that may not publish to each other', async () => {
    const [executor, gateway, spy] = [await as('mcp-executor'), await as('gateway'), await as('acme')];
    const seen: string[] = [];
    spy.subscribe('_INBOX.acme.>', { callback: (_, message) => seen.push(message.subject) });
    executor.subscribe('exec.mcp', {
      queue: 'mcp-executor',
      callback: (_, message) => {
        message.respond('ack');
        message.respond('result');
      },
    });
    await executor.flush();
    const replies: string[] = [];
    const inbox = '_INBOX.gateway.reply';
    gateway.subscribe(inbox, { callback: (_, message) => replies.push(message.string()) });
    gateway.publish('exec.mcp', '{}', { reply: inbox });
    await eventually('both replies', () => replies.length === 2);
    expect(replies).toEqual(['ack', 'result']);
    expect(seen).toEqual([]);
  });

  it('ends the right to answer after the answers that a call has', async () => {
    const [budget, gateway] = [await as('budget'), await as('gateway')];
    const refused = refusals(budget);
    budget.subscribe('budget.limits', {
      callback: (_, message) => {
        for (let i = 0; i < 10; i++) message.respond(String(i));
      },
    });
    await budget.flush();
    const replies: string[] = [];
    gateway.subscribe('_INBOX.gateway.many', { callback: (_, message) => replies.push(message.string()) });
    gateway.publish('budget.limits', '{}', { reply: '_INBOX.gateway.many' });
    await eventually('the refusal', () => refused.size > 0);
    expect(replies.length).toBeLessThanOrEqual(4);
  });

  it('refuses a wrong password, no user and an unknown user', async () => {
    await expect(as('gateway', { pass: 'wrong' })).rejects.toMatchObject({ code: 'AUTHORIZATION_VIOLATION' });
    await expect(as('gateway', { user: undefined, pass: undefined })).rejects.toMatchObject({
      code: 'AUTHORIZATION_VIOLATION',
    });
    await expect(as('python-sandbox')).rejects.toMatchObject({ code: 'AUTHORIZATION_VIOLATION' });
  });

  it('holds the limits of the transport', async () => {
    const { info } = await as('gateway');
    expect(info?.max_payload).toBe(16 * 1024 * 1024);
    const text = readFileSync(CONF, 'utf8');
    expect(text).toMatch(/^ping_interval: "5s"$/m);
    expect(text).toMatch(/^ping_max: 2$/m);
    expect(text).toMatch(/^write_deadline: "2s"$/m);
    expect(text).not.toMatch(/password: (?!\$)/);
  });

  it('does not start without the passwords', async () => {
    const { NATS_GATEWAY_PASSWORD: _, ...rest } = passwords;
    const child = spawnChild('nats-server', ['-c', CONF, '-a', '127.0.0.1', '-p', String(await freePort())], {
      env: { ...process.env, ...rest },
      stdio: 'ignore',
    });
    const code = await new Promise<number | null>((resolve) => child.once('exit', resolve));
    expect(code).not.toBe(0);
  });
});
