/** Who sees what of a call: every entry point that takes the id of one, against every kind of caller, on the fleet of another file. */
import { randomUUID } from 'node:crypto';
import { readFile, readdir } from 'node:fs/promises';
import type { JsonObject } from '@toolfleet/contracts';
import { ROUTES } from '@toolfleet/contracts/resources';
import { SUBJECTS } from '@toolfleet/contracts/subjects';
import { eventually } from '@toolfleet/testing';
import { beforeAll, describe, expect, it } from 'vitest';
import { modernRequest } from '../fleet/mcp-tasks.js';
import type { Answer, TestFleet } from '../fleet/test-fleet.js';

/** As in `Sight` of libs/access. */
type Sight = 'own' | 'shared' | 'recorded' | 'state' | 'none';
/** The part of the call in an answer; `refused`: 403, so that it is; `none`: as for an id that no call has. */
type Seen = 'content' | 'state' | 'refused' | 'none';

const SECRET = 'SEEN BY MIRA';
const REFUSED: Seen = 'refused';
/** What each sight gives: where a way answers with the state, where it has content only, and for a cancellation. */
const GIVES: Record<Sight, { state: Seen; content: Seen; cancel: Seen; list: Seen }> = {
  own: { state: 'content', content: 'content', cancel: 'state', list: 'state' },
  shared: { state: 'content', content: 'content', cancel: REFUSED, list: 'state' },
  recorded: { state: 'content', content: 'content', cancel: 'state', list: 'state' },
  state: { state: 'state', content: REFUSED, cancel: 'state', list: 'state' },
  none: { state: 'none', content: 'none', cancel: 'none', list: 'none' },
};
/** The same as docs/security.md says it: sees that it was, reads content, cancels. */
const WORDS: Record<Sight, string> = {
  own: 'yes | yes | yes',
  shared: 'yes | yes | no',
  recorded: 'yes | recorded | yes',
  state: 'yes | no | yes',
  none: 'no | no | no',
};

interface SightFleet {
  fleet(): TestFleet;
  /** A token of a user of acme. */
  signIn(user: string): Promise<string>;
  /** A message on the subject of acme, without a key if none is given. */
  overNats(verb: string, body: unknown, key?: string): Promise<{ body: Answer['body'] }>;
  /** URL of an MCP server with the tool `add`. */
  serverUrl(): string;
}

interface Way {
  gives: keyof (typeof GIVES)['own'];
  /** The text of the answer about the call of this id, to a caller with this key. */
  ask(id: string, key: string): Promise<string>;
  /** Whether the text has it, where that is not the secret. */
  has?(text: string): boolean;
}

/** Parameters of a route that name something else than a call. */
const OTHER_IDS = [
  /^(GET|DELETE) \/api\/v1\/approval-grants\/\{id\}$/,
  /^\S+ \/api\/v1\/(keys|sessions|purges|tenants|webhooks)\/\{id\}/,
  /^\S+ \/api\/v1\/(connections|sources)\/\{kind\}\/\{name\}/,
  /^\S+ \/api\/v1\/(tools|toolsets|catalog|declarations|quarantine)\/\{name\}/,
  /^\S+ \/tools\/\{name\}/,
  /^PUT \/api\/v1\/python\/modules\/\{level\}$/,
  /^DELETE \/api\/v1\/budgets$/,
];
/** Query parameters that name a call, or of which another parameter does. */
const CALL_QUERIES = ['id', 'call_id', 'parent_id', 'handle'];
/** Methods of MCP that take no id of a call. */
const OTHER_METHODS = [
  'completion/complete',
  'prompts/get',
  'prompts/list',
  'resources/list',
  'resources/subscribe',
  'resources/templates/list',
  'resources/unsubscribe',
  'tools/list',
];
/** Subjects of clients that take no id of a call; `tool.spend` takes the token of one only. */
const OTHER_SUBJECTS: string[] = [SUBJECTS.toolList, SUBJECTS.toolSpend];

export function describeCallSight({ fleet, signIn, overNats, serverUrl }: SightFleet): void {
  describe('the table of sight', () => {
    const callers: [string, () => string, Sight][] = [];
    /** Calls of mira by kind, made with `maker`. */
    const made: Record<string, string> = {};
    let shared: string;
    let maker: string;
    const get = async (path: string, key: string) => (await fleet().ask({ path, key })).text;
    const send = async (method: string, path: string, key: string, body?: object) =>
      (await fleet().ask({ method, path, key, ...(body && { body }) })).text;
    const rpc = async (method: string, params: object, key: string) =>
      (await fleet().ask({ path: '/mcp', key, ...modernRequest(method, params as never) })).text;

    const newKey = async (spec: object, key = fleet().operatorKey): Promise<string> => {
      const { body, text } = await fleet().ask({ path: '/api/v1/keys', body: spec, key });
      expect(body?.token, text).toBeTypeOf('string');
      return body.token;
    };
    const ended = (id: string, key: string) =>
      eventually(`call ${id} has ended`, async () => (await get(`/api/v1/calls/${id}`, key)).includes('"succeeded"'));

    beforeAll(async () => {
      const acme = { tenant_id: 'acme' };
      const minter = await newKey({ ...acme, client: 'minter', roles: ['minter'] });
      const all = {
        maker: await newKey({ ...acme, client: 'mira-app', user_id: 'mira' }),
        other: await newKey({ ...acme, client: 'mira-cli', user_id: 'mira', tools: ['text_*', 'calculator'] }),
        user: await signIn('mira'),
        twin: await newKey({ client: 'mira-twin', user_id: 'mira' }, minter),
        service: await newKey({ client: 'service', service_account: 'service' }, fleet().adminKey),
        member: await signIn('rob'),
        same: await newKey({ ...acme, client: 'same', tools: ['text_process', 'calculator'] }),
        approver: await newKey({ ...acme, client: 'ada', roles: ['approver'] }),
        admin: fleet().adminKey,
        auditor: await newKey({ ...acme, client: 'audra', roles: ['auditor'] }),
        operator: fleet().operatorKey,
        foreign: await newKey({ tenant_id: 'globex', client: 'mira', user_id: 'mira', roles: ['admin'] }),
        foreignAuditor: await newKey({ tenant_id: 'globex', client: 'gus', roles: ['auditor'] }),
      };
      maker = all.maker;
      callers.push(
        ['the key that made it', () => all.maker, 'own'],
        ['its user, signed in or with a token', () => all.user, 'own'],
        ['another key of its user, made by the user or an operator', () => all.other, 'own'],
        ['a key that an administrator made in the name of its user', () => all.twin, 'none'],
        ['a service key', () => all.service, 'none'],
        ['another user', () => all.member, 'none'],
        ['a key with the same tools', () => all.same, 'none'],
        ['the role `approver`', () => all.approver, 'none'],
        ['the right `all_calls`: the role `admin`', () => all.admin, 'state'],
        ['`all_calls` and `read_bodies`: the role `auditor`', () => all.auditor, 'recorded'],
        ['`all_calls` and `all_tenants`: an operator', () => all.operator, 'state'],
        ['an administrator of another tenant', () => all.foreign, 'none'],
        ['an auditor of another tenant', () => all.foreignAuditor, 'none'],
      );
      const args = { text: 'seen by mira. '.repeat(150), operation: 'case', to: 'upper' };
      const accepted = await fleet().call('text_process', args, { key: maker, fields: { mode: 'async' } });
      made['async'] = accepted.body.call_id;
      const kept = await fleet().call('text_process', args, { key: maker, fields: { max_result_kb: 1 } });
      made['kept'] = kept.body.call_id;
      const keyed = await fleet().call('text_process', args, { key: maker, headers: { 'idempotency-key': 'mira' } });
      made['journal'] = keyed.body.call_id;
      await ended(made['async']!, maker);
      const source = { name: 'wiki', url: serverUrl(), results: 'tenant' };
      const registered = await fleet().ask({ path: '/api/v1/sources/mcp', body: source });
      expect(registered.status, registered.text).toBe(201);
      await fleet().untilListed(['wiki_add']);
      const sum = await fleet().call(
        'wiki_add',
        { a: 1_234_567, b: 7_654_321 },
        { key: maker, fields: { mode: 'async' } },
      );
      shared = sum.body.call_id;
      await ended(shared, maker);
      for (const id of [...Object.values(made), shared])
        await eventually(`call ${id} is recorded`, async () => (await recordOf(id)) !== undefined);
      await eventually('they are in the ledger', async () => ofMira(await WAYS['GET /api/v1/usage']!.ask('', maker)));
    });

    async function recordOf(id: string): Promise<{ cursor: string } | undefined> {
      return JSON.parse(await get(`/api/v1/calls?id=${id}`, fleet().adminKey)).calls[0];
    }
    const ofMira = (text: string) => /"user_id":"mira"/.test(text) && text.includes('text_process');

    /** Every way to a call by its id, and every list and sum that it may be in. Keys: routes, MCP methods, NATS subjects. */
    const WAYS: Record<string, Way> = {
      'GET /api/v1/calls/{id}': { gives: 'state', ask: (id, key) => get(`/api/v1/calls/${id}`, key) },
      'GET /api/v1/calls/{id}/events': { gives: 'state', ask: (id, key) => get(`/api/v1/calls/${id}/events`, key) },
      'GET /api/v1/calls/{id}/result': { gives: 'content', ask: (id, key) => get(`/api/v1/calls/${id}/result`, key) },
      'GET /api/v1/calls/{id}/content/{index}': {
        gives: 'content',
        ask: (id, key) => get(`/api/v1/calls/${id}/content/0`, key),
        // The tool answers with text only, so those that read the content learn that it has no blocks.
        has: (text) => text.includes('has no content block'),
      },
      'GET /api/v1/calls/{id}/record': {
        gives: 'list',
        ask: (id, key) => get(`/api/v1/calls/${id}/record`, key),
        has: (text) => text.includes('"tool":"text_process"'),
      },
      'GET /api/v1/calls/{id}/body': { gives: 'content', ask: (id, key) => get(`/api/v1/calls/${id}/body`, key) },
      'POST /api/v1/calls/{id}/replay': {
        gives: 'content',
        ask: (id, key) => send('POST', `/api/v1/calls/${id}/replay`, key, { mode: 'dry' }),
      },
      'DELETE /api/v1/calls/{id}': {
        gives: 'cancel',
        ask: (id, key) => send('DELETE', `/api/v1/calls/${id}`, key),
        has: (text) => text.includes('"status":"succeeded"'),
      },
      'GET /api/v1/results/{handle}': { gives: 'content', ask: (id, key) => get(`/api/v1/results/${id}`, key) },
      'GET /api/v1/calls': {
        gives: 'list',
        ask: (id, key) => get(`/api/v1/calls?id=${id}`, key),
        has: (text) => text.includes('"tool":"text_process"'),
      },
      'GET /api/v1/usage': {
        gives: 'list',
        ask: (_, key) => get('/api/v1/usage?group_by=user,tool&tenant_id=acme', key),
        has: ofMira,
      },
      'GET /api/v1/usage/forecast': {
        gives: 'list',
        ask: (_, key) => get('/api/v1/usage/forecast?group_by=user,tool&tenant_id=acme', key),
        has: ofMira,
      },
      'tasks/get': { gives: 'state', ask: (id, key) => rpc('tasks/get', { taskId: id }, key) },
      'tasks/cancel': {
        gives: 'cancel',
        ask: (id, key) => rpc('tasks/cancel', { taskId: id }, key),
        has: (text) => text.includes('"result"'),
      },
      'resources/read': {
        gives: 'content',
        ask: (id, key) =>
          rpc('resources/read', { uri: `toolfleet://results/${id}`, name: `toolfleet://results/${id}` }, key),
      },
      'tools/call': {
        gives: 'content',
        ask: (id, key) => rpc('tools/call', { name: 'read_result', arguments: { handle: id } }, key),
      },
      'POST /api/v1/tools/{name}/execute': {
        gives: 'content',
        ask: (id, key) => send('POST', '/api/v1/tools/read_result/execute', key, { arguments: { handle: id } }),
      },
    };
    /** Answers about the id of a call that has ended are those about no call, for everyone. */
    const NOT_WAITING: Record<string, (id: string, key: string) => Promise<string>> = {
      'GET /api/v1/approvals/{id}': (id, key) => get(`/api/v1/approvals/${id}`, key),
      'POST /api/v1/approvals/{id}/approve': (id, key) => send('POST', `/api/v1/approvals/${id}/approve`, key, {}),
      'POST /api/v1/approvals/{id}/reject': (id, key) => send('POST', `/api/v1/approvals/${id}/reject`, key, {}),
    };
    /** Seen elsewhere: `tasks/update` answers questions of the owner's task, the others need `all_calls` or are streams. */
    const ELSEWHERE = ['tasks/update', 'GET /api/v1/calls/events'];
    const overNatsWays: Record<string, Way> = {
      [SUBJECTS.toolCall]: {
        gives: 'content',
        ask: async (id, key) => JSON.stringify((await overNats('call', readResult(id), key || undefined)).body),
      },
      [SUBJECTS.toolBatch]: {
        gives: 'content',
        ask: async (id, key) =>
          JSON.stringify((await overNats('batch', { calls: [readResult(id)] }, key || undefined)).body),
      },
      [SUBJECTS.toolCancel]: {
        gives: 'cancel',
        ask: async (id, key) => JSON.stringify((await overNats('cancel', { call_id: id }, key || undefined)).body),
        has: (text) => text.includes('"state":"succeeded"'),
      },
    };
    const readResult = (handle: string) => ({ name: 'read_result', arguments: { handle } });

    const anonymous = (text: string) =>
      text
        .replaceAll(/[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/g, '<id>')
        .replaceAll(/(\\*")(execution_time|[a-z_]+_ms)\1:[\d.]+/g, '$1$2$1:0');
    /** What the answer to a caller shows of a call, against the answer about an id that no call has. */
    async function seen({ gives, ask, has }: Way, id: string, key: string, secret = SECRET): Promise<Seen> {
      const [text, missing] = [await ask(id, key), await ask(randomUUID(), key)];
      if (has ? has(text) : text.includes(secret)) return gives === 'list' || gives === 'cancel' ? 'state' : 'content';
      if (gives === 'list') return 'none';
      if (anonymous(text) === anonymous(missing)) return 'none';
      // A call of another tenant is not repeated, whatever the rights.
      return /PERMISSION_DENIED|other_tenant/.test(text) ? 'refused' : 'state';
    }

    it('covers every route, method, subject and tool that takes the id of a call', async () => {
      const routes = Object.entries(ROUTES).filter(([name, route]) => {
        const query = 'query' in route ? Object.keys((route.query as { properties?: object }).properties ?? {}) : [];
        return name.includes('{') || query.some((one) => CALL_QUERIES.includes(one));
      });
      const others = routes.filter(([name]) => OTHER_IDS.some((pattern) => pattern.test(name))).map(([name]) => name);
      const named = new Set([...Object.keys(WAYS), ...Object.keys(NOT_WAITING), ...ELSEWHERE, ...others]);
      expect(routes.map(([name]) => name).filter((name) => !named.has(name))).toEqual([]);

      const folder = new URL('../../libs/mcp/src/', import.meta.url);
      const files = (await readdir(folder)).filter((file) => file.endsWith('.ts') && !file.endsWith('.spec.ts'));
      const code = (await Promise.all(files.map((file) => readFile(new URL(file, folder), 'utf8')))).join('\n');
      const methods = new Set([...code.matchAll(/setRequestHandler\(\s*'([^']+)'/g)].map(([, method]) => method!));
      expect(methods.size).toBeGreaterThan(10);
      expect([...methods].filter((method) => !named.has(method) && !OTHER_METHODS.includes(method))).toEqual([]);

      const subjects = Object.values(SUBJECTS).filter((subject) => subject.startsWith('tool.'));
      const known = [...Object.keys(overNatsWays), ...OTHER_SUBJECTS, SUBJECTS.toolResult];
      expect(subjects.filter((subject) => !known.includes(subject))).toEqual([]);

      const tools = (await fleet().ask({ path: '/api/v1/tools' })).body as { name: string; parameters: JsonObject }[];
      const taking = tools.filter(({ parameters: { properties } }) =>
        Object.keys((properties ?? {}) as JsonObject).some((name) => ['handle', 'call_id', 'task_id'].includes(name)),
      );
      expect(taking.map(({ name }) => name)).toEqual(['read_result']);
    });

    it('is what each caller gets by each way', async () => {
      const surprises: string[] = [];
      let tries = 0;
      for (const [who, key, sight] of callers)
        for (const [way, probe] of Object.entries({ ...WAYS, ...overNatsWays })) {
          // A NATS user of acme does not carry keys of other tenants.
          if (way in overNatsWays && /operator|another tenant/.test(who)) continue;
          for (const [kind, id] of Object.entries(made)) {
            tries += 1;
            const got = await seen(probe, id, key());
            if (got !== GIVES[sight][probe.gives]) surprises.push(`${who}, ${way}, ${kind}: ${got}`);
          }
        }
      for (const [way, probe] of Object.entries(overNatsWays)) {
        tries += 1;
        const got = await seen(probe, made['async']!, '');
        if (got !== 'none') surprises.push(`NATS users without a key, ${way}: ${got}`);
      }
      for (const [who, key] of callers)
        for (const [way, ask] of Object.entries(NOT_WAITING)) {
          tries += 1;
          const id = made['async']!;
          if (anonymous(await ask(id, key())) !== anonymous(await ask(randomUUID(), key())))
            surprises.push(`${who}, ${way}`);
        }
      expect(surprises).toEqual([]);
      expect(tries).toBeGreaterThan(callers.length * Object.keys(WAYS).length);
    });

    it('holds for the stream of finished calls', async () => {
      const { cursor } = (await recordOf(made['async']!))!;
      for (const [who, key, sight] of callers) {
        const headers = { authorization: `Bearer ${key()}`, 'last-event-id': String(Number(cursor) - 1) };
        const own = (await fleet().call('calculator', { expression: '1+1' }, { key: key() })).body.call_id as string;
        expect(own, who).toBeTypeOf('string');
        const stop = new AbortController();
        const stream = await fetch(`${fleet().url()}/api/v1/calls/events`, { headers, signal: stop.signal });
        let text = '';
        for await (const part of stream.body!.pipeThrough(new TextDecoderStream())) {
          text += part;
          // Calls come in the order of their recording.
          if (text.includes(own)) break;
        }
        stop.abort();
        expect(text.includes(made['async']!), who).toBe(sight !== 'none');
      }
    });

    it('shows the calls of a source with results: tenant to those that may use the tool', async () => {
      const wanted: Record<string, Sight> = {
        'a key that an administrator made in the name of its user': 'shared',
        'a service key': 'shared',
        'another user': 'shared',
        'the role `approver`': 'shared',
        'the right `all_calls`: the role `admin`': 'shared',
        '`all_calls` and `read_bodies`: the role `auditor`': 'shared',
      };
      for (const [who, key, sight] of callers)
        for (const way of [
          'GET /api/v1/calls/{id}',
          'DELETE /api/v1/calls/{id}',
          'GET /api/v1/calls/{id}/body',
          'tasks/get',
        ]) {
          const probe = { ...WAYS[way]! };
          const isSum = (text: string) => text.includes('8888888');
          const got = await seen(probe.gives === 'cancel' ? probe : { ...probe, has: isSum }, shared, key());
          const rule = wanted[who] ?? sight;
          const gives = GIVES[probe.gives === 'cancel' && who.includes('`all_calls`') ? 'state' : rule];
          expect(got, `${who}, ${way}`).toBe(gives[probe.gives]);
        }
      const auth = { user: { mode: 'api_key' } };
      for (const body of [
        { name: 'mail', url: serverUrl(), results: 'tenant', auth },
        { name: 'mail', url: serverUrl(), overrides: { '*': { results: 'tenant' } }, auth },
      ]) {
        const refused = await fleet().ask({ path: '/api/v1/sources/mcp', body });
        expect([refused.status, refused.text]).toEqual([
          400,
          expect.stringContaining('results must not be tenant with auth'),
        ]);
      }
    });

    it('is the table of docs/security.md', async () => {
      const page = await readFile(new URL('../../docs/security.md', import.meta.url), 'utf8');
      const table = page.slice(page.indexOf('### Sight'));
      for (const [who, , sight] of callers) expect(table).toContain(`| ${who} | ${WORDS[sight]} |\n`);
      expect(table).toContain(`| NATS users of the tenant without a key | ${WORDS.none} |\n`);
      expect(table).toContain(
        `| callers that may use the tool, where its source has \`results: tenant\` | ${WORDS.shared} |\n`,
      );
    });
  });
}
