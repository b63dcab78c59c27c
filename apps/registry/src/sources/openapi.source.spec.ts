import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { JsonObject } from '@toolfleet/contracts';
import type { DefinitionRegister, DefinitionRegisterReply } from '@toolfleet/contracts/registry';
import type { OpenApiBinding } from '@toolfleet/contracts/tool-definition';
import { EgressClient } from '@toolfleet/egress';
import { SystemClock } from '@toolfleet/resilience';
import { SecretBox, secretContext } from '@toolfleet/service';
import { FakeClock, startRecordingServer, type RecordingServer } from '@toolfleet/testing';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { SourceLook } from '../definition-store.js';
import { supersededError } from '../source-store.js';
import { OpenApiConversions } from './openapi-convert.js';
import { OpenApiSource } from './openapi.source.js';

const KEY = 'a registry key of more than thirty-two characters';
const document = (paths: JsonObject, more: JsonObject = {}) =>
  JSON.stringify({ openapi: '3.1.0', info: { title: 't', version: '2.1.0' }, paths, ...more });
const op = (operationId: string, more: JsonObject = {}) => ({ get: { operationId, ...more } });

describe('OpenApiSource', () => {
  let upstream: RecordingServer;
  let egress: EgressClient;
  let clock: FakeClock;
  /** On the machine's clock: a child is not slowed by the clock of a test. */
  let conversions: OpenApiConversions;
  let source: OpenApiSource;
  let directory: string;
  const announced: DefinitionRegister[] = [];
  const logged: JsonObject[] = [];
  const looks: ({ name: string } & SourceLook)[] = [];
  let conflicts: ReadonlySet<string>;
  /** Registrations are gone, as another replica left them. */
  let isUndone: boolean;
  /** Documents are sent when this resolves. */
  let sending: Promise<void>;
  let spec: { text: string; etag?: string; status?: number };

  beforeAll(async () => {
    upstream = await startRecordingServer();
    egress = new EgressClient({ allowlist: ['api.example.com'], allowedEndpoints: [upstream.url] });
    conversions = new OpenApiConversions(egress, new SystemClock(), 100_000);
    directory = mkdtempSync(join(tmpdir(), 'specs-'));
  });
  afterAll(async () => {
    conversions.close();
    rmSync(directory, { recursive: true });
    await egress.close();
    await upstream.stop();
  });
  beforeEach(() => {
    announced.length = 0;
    logged.length = 0;
    looks.length = 0;
    upstream.requests.length = 0;
    conflicts = new Set();
    isUndone = false;
    sending = Promise.resolve();
    spec = { text: document({ '/a': op('a') }), etag: '"1"' };
    upstream.answerWith(async (request, response) => {
      const { text, status = 200, etag } = spec;
      await sending;
      if (etag !== undefined && request.headers['if-none-match'] === etag) return void response.writeHead(304).end();
      response.writeHead(status, etag ? { etag } : {}).end(text);
    });
    clock = new FakeClock();
    source = make(true);
  });

  function make(sealed: boolean, converting = conversions): OpenApiSource {
    const box = new SecretBox(KEY);
    const log = (facts: JsonObject) => void logged.push(facts);
    return new OpenApiSource(
      {
        register: async (message, footing) => {
          if (footing && !footing.isNew && isUndone) throw supersededError({ kind: 'openapi', name: 'col' });
          const before = new Set(announced.at(-1)?.definitions.map(({ name }) => name));
          announced.push(message);
          return replyTo(message, before);
        },
        egress,
        conversions: converting,
        keepLook: async ({ name }, look) => void looks.push({ name, ...look }),
        ...(sealed
          ? { sealFor: (name: string) => (text: string) => box.seal(text, secretContext('openapi', name)) }
          : {}),
      },
      { maxSpecBytes: 100_000, fetchTimeoutMs: 5_000, refreshMs: 60_000, specDirectory: directory },
      clock,
      { info: log, warn: log, error: log } as never,
    );
  }

  function replyTo({ definitions }: DefinitionRegister, before: ReadonlySet<string>): DefinitionRegisterReply {
    const names = definitions.map(({ name }) => name);
    const registered = names.filter((name) => !conflicts.has(name));
    return {
      registered,
      added: registered.filter((name) => !before.has(name)),
      changed: [],
      removed: [...before].filter((name) => !names.includes(name)),
      refused: names
        .filter((name) => conflicts.has(name))
        .map((name) => ({ name, code: 'TOOL_NAME_CONFLICT', message: `${name}: set name_prefix` })),
      quarantined: [],
    };
  }

  it('turns operations into complete definitions', async () => {
    const text = document({
      '/a/{id}': { ...op('a/b', { tags: ['t'], summary: 's' }), post: { operationId: 'make' } },
    });
    const reply = await source.add({
      name: 'col',
      spec_inline: text,
      base_url: upstream.url,
      name_prefix: 'x_',
      base_cost_per_use: 0.002,
      rate_limit: 30,
      timeout_seconds: 5,
      vendor_adapter: 'datainsight',
    });
    expect(reply).toMatchObject({
      success: true,
      operations_registered: ['x_a_b', 'x_make'],
      rate_limit: 30,
      timeout_seconds: 5,
    });
    const [get, post] = announced[0]!.definitions;
    expect(get).toMatchObject({
      name: 'x_a_b',
      aliases: ['col.x_a_b', 'col.a_b'],
      version: '2.1.0',
      description: 's',
      category: 'api',
      tags: ['t'],
      idempotent: true,
      cost_per_use_micro_usd: 2_000,
      context_keys: ['prompt_params'],
      source: { kind: 'openapi', name: 'col' },
      binding: { kind: 'openapi', collection: 'col', baseUrl: upstream.url, operationId: 'a/b', method: 'GET' },
    });
    expect(post).toMatchObject({ idempotent: false, cache_ttl_seconds: 0, forwards_idempotency_key: true });
  });

  it('keeps variables, seals literal secrets, and refuses them without a key', async () => {
    const entry = {
      name: 'col',
      spec_inline: document({ '/a': op('a') }),
      base_url: upstream.url,
      auth_type: 'basic' as const,
      auth_config: { username: 'ada', password: 'literal-secret' },
      extra_headers: { 'X-Api-Key': '${KEY}', 'X-Plain': 'v' },
    };
    await source.add(entry);
    const { options } = announced[0]!.definitions[0]!.binding as OpenApiBinding;
    expect(JSON.stringify(options)).not.toContain('literal-secret');
    expect(options).toMatchObject({ auth_config: { username: 'ada', password: expect.stringMatching(/^sealed:/) } });
    expect(options).toMatchObject({ extra_headers: { 'X-Api-Key': '${KEY}', 'X-Plain': 'v' } });
    const refused = await make(false).add(entry);
    expect(refused).toMatchObject({ success: false, message: expect.stringContaining('auth_config.password') });
  });

  it('refuses operations one by one, and the document when none is left', async () => {
    const servers = [{ url: 'http://169.254.169.254' }];
    const paths = { '/ok': op('ok'), '/far': { get: { operationId: 'far', parameters: [{ $ref: 'x.json' }] } } };
    const entry = { name: 'col', base_url: upstream.url };
    const some = await source.add({ ...entry, spec_inline: document(paths) });
    expect(some).toMatchObject({
      success: true,
      operations_registered: ['ok'],
      refused: [{ code: 'REMOTE_REF_UNSUPPORTED' }],
    });
    const bad = await source.add({ name: 'col', spec_inline: document({ '/a': op('a') }, { servers }) });
    expect(bad).toMatchObject({
      success: false,
      message: expect.stringContaining('TARGET_ADDRESS_REFUSED: the server http://169.254.169.254'),
    });
    const none = await source.add({ name: 'col', spec_inline: document({ '/a': op('a') }) });
    expect(none.message).toContain('SERVER_URL_MISSING');
    expect((await source.add({ ...entry, spec_inline: '{"swagger":"1.2"}' })).message).toMatch(
      /^Registration error: SPEC_VERSION/,
    );
    expect((await source.add({ ...entry, spec_inline: 'a: [' })).message).toMatch(
      /^Parse error: SPEC_PARSE_ERROR.*line/,
    );
  });

  it('answers 409 with the advice when every name belongs to others', async () => {
    conflicts = new Set(['a']);
    const entry = { name: 'col', spec_inline: document({ '/a': op('a') }), base_url: upstream.url };
    await expect(source.add(entry)).rejects.toMatchObject({
      code: 'TOOL_NAME_CONFLICT',
      message: expect.stringContaining('name_prefix'),
    });
  });

  it('resolves relative servers against the document, after one download for many', async () => {
    spec.text = document({ '/a': op('a') }, { servers: [{ url: '/v1' }] });
    const entry = { spec_url: `${upstream.url}/spec.json` };
    await Promise.all([source.add({ name: 'one', ...entry }), source.add({ name: 'two', ...entry })]);
    expect(upstream.requests).toHaveLength(1);
    expect(announced[0]!.definitions[0]!.binding).toMatchObject({ baseUrl: `${upstream.url}/v1` });
  });

  it('registers a changed document again and leaves an unchanged one alone', async () => {
    source.start([{ name: 'col', spec_url: `${upstream.url}/spec.json`, base_url: upstream.url }]);
    await nextLookIsDue();
    expect(announced).toHaveLength(1);
    clock.advance(60_000);
    await expect.poll(() => upstream.requests.length).toBe(2);
    expect(upstream.requests[1]?.headers['if-none-match']).toBe('"1"');
    await nextLookIsDue();
    spec = { text: document({ '/b': op('b') }), etag: '"2"' };
    clock.advance(60_000);
    await expect.poll(() => announced.length).toBe(2);
    await expect.poll(() => logged.at(-1)).toMatchObject({ collection: 'col', added: ['b'], removed: ['a'] });
    source.stop();
  });

  it('keeps trying a document that is unavailable', async () => {
    spec = { text: 'x', status: 500 };
    source.start([{ name: 'col', spec_url: `${upstream.url}/spec.json`, base_url: upstream.url }]);
    await expect.poll(() => logged.at(-1)?.error).toContain('SPEC_FETCH_REFUSED');
    await nextLookIsDue();
    const failedAt = clock.now();
    expect(looks).toMatchObject([{ name: 'col', state: 'failed', at: failedAt, nextAt: failedAt + 1_000 }]);
    spec = { text: document({ '/a': op('a') }) };
    clock.advance(1_000);
    await expect.poll(() => announced.length).toBe(1);
    await expect.poll(() => looks.at(-1)).toMatchObject({ state: 'ok', nextAt: clock.now() + 60_000 });
    source.stop();
  });

  it('reads a document again on request, and keeps what an unchanged one gave', async () => {
    spec.text = document({ '/a': op('a'), '/b': op('taken') });
    conflicts = new Set(['taken']);
    source.start([{ name: 'col', spec_url: `${upstream.url}/spec.json`, base_url: upstream.url }]);
    await nextLookIsDue();
    expect(await source.look('col')).toBe(true);
    expect(upstream.requests).toHaveLength(2);
    expect(announced).toHaveLength(1);
    expect(looks).toHaveLength(2);
    for (const look of looks) expect(look).toMatchObject({ state: 'ok', refused: [{ name: 'taken' }] });
    expect(await source.look('other')).toBe(false);
    source.stop();
  });

  it('reads files of registrations from its directory only', async () => {
    const outside = mkdtempSync(join(tmpdir(), 'other-'));
    const text = document({ '/a': op('a') });
    for (const folder of [directory, outside]) writeFileSync(join(folder, 'spec.json'), text);
    symlinkSync(join(outside, 'spec.json'), join(directory, 'link.json'));
    const add = (file: string) =>
      source.add({ name: 'col', spec_url: pathToFileURL(file).href, base_url: upstream.url });
    expect((await add(join(directory, 'spec.json'))).success).toBe(true);
    for (const file of [
      join(outside, 'spec.json'),
      join(directory, 'link.json'),
      join(directory, 'none.json'),
      '/etc/passwd',
    ]) {
      expect((await add(file)).message).toBe(
        'Registration error: SPEC_FETCH_REFUSED: documents on this machine are read from OPENAPI_SPEC_DIR only',
      );
    }
    rmSync(outside, { recursive: true });
  });

  it('validates without registering', async () => {
    const valid = await source.validate({
      spec_inline: document({ '/a': op('a', { summary: 's' }) }),
      base_url: upstream.url,
    });
    expect(valid).toMatchObject({
      valid: true,
      operations_count: 1,
      operations: [{ operation_id: 'a', method: 'GET', path: '/a', description: 's' }],
      base_url: upstream.url,
      errors: [],
    });
    expect(await source.validate({ spec_inline: 'x' })).toMatchObject({
      valid: false,
      errors: [expect.stringContaining('SPEC_PARSE_ERROR')],
    });
    expect(await source.validate({ spec_url: 'http://10.0.0.1/x' })).toMatchObject({ valid: false });
    const text = document({ '/a': op('a') });
    for (const [request, error] of [
      [{}, 'The request is invalid: needs spec_url, spec_path or spec_inline'],
      [
        { spec_inline: text, opperations: ['a'] },
        'The request is invalid: opperations is an unknown key; did you mean operations?',
      ],
      [{ spec_inline: text, operations: ['b'] }, expect.stringContaining('NO_OPERATION_SELECTED')],
    ] as const) {
      expect(await source.validate(request as never)).toMatchObject({ valid: false, errors: [error] });
    }
    expect(announced).toHaveLength(0);
  });

  it('gives up a document that takes longer than a minute, and converts the next one', async () => {
    const hurried = new OpenApiConversions(egress, clock, 32 * 1024 * 1024);
    source = make(false, hurried);
    // Seconds of work, so that the minute of the test's clock ends first.
    const slow = `openapi: 3.1.0\ninfo: {title: t, version: '1'}\nx-rows:\n${'  - {a: [1, 2, 3], b: {c: d}}\n'.repeat(600_000)}`;
    const refused = source.add({ name: 'slow', spec_inline: slow, base_url: upstream.url });
    let reply: Awaited<typeof refused> | undefined;
    void refused.then((given) => (reply = given));
    await expect
      .poll(async () => {
        await clock.advance(60_000);
        return reply?.message;
      })
      .toContain('SPEC_TOO_COMPLEX: the document takes longer than 60 s to convert');
    expect(reply).toMatchObject({ success: false });
    const next = await source.add({ name: 'col', spec_inline: document({ '/a': op('a') }), base_url: upstream.url });
    expect(next).toMatchObject({ success: true, operations_registered: ['a'] });
    hurried.close();
  });

  it('refuses a malformed registration', async () => {
    const entry = { name: 'col', spec_inline: 'x' };
    await expect(source.add({ ...entry, opperations: [] } as never)).rejects.toMatchObject({ code: 'REQUEST_INVALID' });
    await expect(source.add({ ...entry, auth_type: 'magic' } as never)).rejects.toThrow(
      'auth_type must be one of none, api_key, bearer, basic, oauth2, not "magic"',
    );
  });

  it('leaves the tools there are when a mistyped filter selects none, and names what it does not find', async () => {
    const entry = { name: 'col', spec_inline: document({ '/a': op('a') }), base_url: upstream.url };
    expect(await source.add({ ...entry, operations: ['b'] })).toMatchObject({
      success: false,
      message: expect.stringContaining('NO_OPERATION_SELECTED'),
    });
    expect(announced).toHaveLength(0);
    expect(await source.add({ ...entry, operations: ['a', 'b'] })).toMatchObject({
      success: true,
      operations_registered: ['a'],
      warnings: ["/paths: no operation has the operationId 'b'"],
    });
  });

  describe('registrations', () => {
    const entry = () => ({ name: 'col', spec_url: `${upstream.url}/spec.json`, base_url: upstream.url });
    const kept = () => ({ kind: 'openapi' as const, name: 'col', body: entry() });
    const names = () => announced.map(({ definitions }) => definitions.map(({ name }) => name).join());

    it('brings nothing back when it is undone while the document is fetched', async () => {
      const held = Promise.withResolvers<void>();
      sending = held.promise;
      await source.follow([kept()]);
      await expect.poll(() => upstream.requests.length).toBe(1);
      source.forget('col');
      held.resolve();
      // A second document is registered after the first was looked at.
      await source.add({ name: 'other', spec_url: `${upstream.url}/other.json`, base_url: upstream.url });
      expect(announced.map((message) => message.source.name)).toEqual(['other']);
      source.stop();
    });

    it('leaves the newer document when a look ends after the registration that replaced it', async () => {
      const held = Promise.withResolvers<void>();
      sending = held.promise;
      await source.follow([kept()]);
      await expect.poll(() => upstream.requests.length).toBe(1);
      sending = Promise.resolve();
      const inline = { name: 'col', base_url: upstream.url, spec_inline: document({ '/new': op('new') }) };
      await source.add(inline, { kind: 'openapi', name: 'col', body: inline });
      held.resolve();
      await source.add({ name: 'other', spec_url: `${upstream.url}/spec.json`, base_url: upstream.url });
      expect(names()).toEqual(['new', 'a']);
      source.stop();
    });

    it('lets go of one that was undone at another replica, and takes it up when it is made again', async () => {
      await source.follow([kept()]);
      await nextLookIsDue();
      isUndone = true;
      spec = { text: document({ '/b': op('b') }), etag: '"2"' };
      clock.advance(60_000);
      await expect.poll(() => upstream.requests.length).toBe(2);
      isUndone = false;
      await expect.poll(() => source.follow([kept()]).then(() => names())).toEqual(['a', 'b']);
      await nextLookIsDue();
      await source.follow([]);
      expect(clock.pending).toBe(0);
    });
  });

  /** The look that is under way has ended and armed its next timer. */
  const nextLookIsDue = () => expect.poll(() => clock.pending).toBe(1);
});
