import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { JsonObject } from '@toolfleet/contracts';
import type { ToolDefinition } from '@toolfleet/contracts/tool-definition';
import type { ToolsetSpec } from '@toolfleet/contracts/toolset';
import { parseFleetFiles } from '@toolfleet/fleet-file';
import { createLogger } from '@toolfleet/telemetry';
import { FakeClock, startRedis, type RedisServer } from '@toolfleet/testing';
import type { Redis } from 'ioredis';
import { Catalog } from './catalog.js';
import { Declarations } from './redis-declarations.js';
import { RedisDefinitionStore } from './redis-definition-store.js';
import { MAX_VERSIONS, RedisToolsetStore } from './redis-toolset-store.js';
import { toolKey, toRevision } from './tool-key.js';
import { ToolsetService } from './toolset-service.js';

const definition = (name: string, more: Partial<ToolDefinition> = {}): ToolDefinition => ({
  name,
  version: '1.0.0',
  description: `Tool ${name}`,
  category: 'data',
  input_schema: {
    type: 'object',
    properties: {
      text: { type: 'string' },
      limit: { type: 'integer', maximum: 9 },
      region: { $ref: '#/$defs/region' },
    },
    required: ['text', 'region'],
    $defs: { region: { enum: ['eu', 'us'] } },
  },
  binding: { kind: 'builtin', toolset: 'compute', handler: name },
  source: { kind: 'builtin', name: 'builtin.compute' },
  ...more,
});

let server: RedisServer;
let redis: Redis;
const clock = new FakeClock();
const published: string[] = [];
const faults = new Map<string, readonly string[]>();
const logger = createLogger({ service: 'registry', level: 'silent' });

beforeAll(async () => {
  server = await startRedis();
  redis = server.client();
});
afterAll(() => server?.stop());
beforeEach(async () => {
  await redis.flushall();
  published.length = 0;
  faults.clear();
});

/** The service of a replica after its start. */
async function started(file: JsonObject = {}, declarations = new Declarations(redis, 'toolsets')) {
  const host = {
    clock,
    logger,
    faults: { set: (subject: string, found: readonly string[]) => void faults.set(subject, found) },
  };
  const catalog = new Catalog(new RedisDefinitionStore(redis), clock);
  const read = parseFleetFiles([{ file: 'fleet.yaml', text: JSON.stringify(file) }]);
  const store = new RedisToolsetStore(redis);
  const service = new ToolsetService(read, store, catalog, host, declarations, (id) => published.push(id));
  await service.start();
  return service;
}

async function announce(...definitions: ToolDefinition[]): Promise<void> {
  const tools = definitions.map((one) => {
    const key = toolKey(one.name, one.tenant);
    return { tool: { key, owner: 'builtin/builtin.compute', definition: one, revision: toRevision(one) } };
  });
  await new RedisDefinitionStore(redis).put('builtin/builtin.compute', tools);
}

const put = (service: ToolsetService, id: string, spec: ToolsetSpec) => service.put({ id, spec, by: 'acme/ann' });

describe('versions of a toolset', () => {
  it('are made by every change, continue counting after a removal, and can be restored', async () => {
    const service = await started();
    expect(await put(service, 'sums@acme', { description: 'one' })).toMatchObject({
      version: 1,
      created_by: 'acme/ann',
    });
    expect(await put(service, 'sums@acme', { description: 'one' })).toMatchObject({ version: 1 });
    expect(await put(service, 'sums@acme', { description: 'two' })).toMatchObject({ version: 2 });
    const restored = await service.put({ id: 'sums@acme', restore_version: 1, by: 'acme/bob' });
    expect(restored).toMatchObject({ version: 3, restores: 1, spec: { description: 'one' } });
    expect(restored.versions.map(({ version }) => version)).toEqual([3, 2, 1]);
    expect(await service.get('acme', 'sums', 2)).toMatchObject({ version: 2, spec: { description: 'two' } });
    expect(await service.get('acme', 'sums', 4)).toBeNull();
    await expect(service.put({ id: 'sums@acme', restore_version: 9, by: 'x' })).rejects.toMatchObject({
      code: 'NOT_FOUND',
    });
    await service.remove('sums@acme');
    expect(await service.get('acme', 'sums')).toBeNull();
    expect(await put(service, 'sums@acme', {})).toMatchObject({ version: 4 });
    expect(await service.get('acme', 'sums', 3)).toBeNull();
    expect(published).toEqual(Array.from({ length: 5 }, () => 'sums@acme'));
  });

  it('are written by concurrent replicas without a loss, and the oldest are dropped', async () => {
    const [one, other] = [await started(), await started()];
    await Promise.all([put(one, 'sums', { description: 'a' }), put(other, 'sums', { description: 'b' })]);
    expect((await one.show('sums')).versions).toHaveLength(2);
    for (let index = 0; index < MAX_VERSIONS; index += 1) await put(one, 'sums', { description: String(index) });
    const { versions, version } = await one.show('sums');
    expect([version, versions.length, versions.at(-1)?.version]).toEqual([MAX_VERSIONS + 2, MAX_VERSIONS, 3]);
  });
});

describe('the users of a toolset', () => {
  it('are its tenant, which takes precedence, or all tenants if it is shared', async () => {
    const service = await started();
    await put(service, 'sums', { description: 'shared' });
    await put(service, 'sums@acme', { description: 'own' });
    expect(await service.get('acme', 'sums')).toMatchObject({ tenant: 'acme', spec: { description: 'own' } });
    expect(await service.get('globex', 'sums')).toMatchObject({ tenant: null, spec: { description: 'shared' } });
    expect((await service.list('acme')).map(({ id }) => id)).toEqual(['sums@acme']);
    expect((await service.list(null)).map(({ id }) => id)).toEqual(['sums']);
    expect(await service.purgeTenant('acme', true)).toBe(1);
    expect(await service.purgeTenant('acme', false)).toBe(1);
    expect((await service.list(undefined)).map(({ id }) => id)).toEqual(['sums']);
  });
});

describe('toolsets of the configuration file', () => {
  it('are stored when they changed, kept from the API, and removed with their entry', async () => {
    const file = { toolsets: { sums: { description: 'file' }, 'own@acme': {} } };
    const service = await started(file);
    expect(await service.show('sums')).toMatchObject({ version: 1, origin: 'config' });
    const again = await started(file);
    expect(await again.show('sums')).toMatchObject({ version: 1 });
    for (const change of [put(again, 'sums', {}), again.remove('own@acme')])
      await expect(change).rejects.toMatchObject({ code: 'TOOL_NAME_CONFLICT' });
    const later = await started({ toolsets: { sums: { description: 'changed' } } });
    expect(await later.show('sums')).toMatchObject({ version: 2, spec: { description: 'changed' } });
    expect(await later.show('own@acme'), 'other replicas declare it').toMatchObject({ version: 1 });
    await Promise.all([service.stop(), again.stop()]);
    await later.removeUndeclared();
    await expect(later.show('own@acme')).rejects.toMatchObject({ code: 'NOT_FOUND' });
  });

  it('with an invalid entry keep the previous version, and report a fault', async () => {
    await started({ toolsets: { sums: { description: 'good' } } });
    const service = await started({ toolsets: { sums: { include: [] }, 'a b': {} } });
    expect(await service.show('sums')).toMatchObject({ version: 1, spec: { description: 'good' } });
    expect([...faults.keys()]).toEqual(['toolset sums', 'toolset a b']);
    expect(faults.get('toolset sums')?.[0]).toContain('toolsets.sums.include must be a mapping');
  });
});

describe('an override', () => {
  const SPEC: ToolsetSpec = {
    overrides: { note: { description: 'Writes', preset: { region: 'eu' }, defaults: { limit: 3 } } },
  };

  it('is in effect for revisions that leave its covered parts unchanged', async () => {
    const service = await started();
    await announce(definition('note'));
    await put(service, 'own@acme', SPEC);
    const first = await service.get('acme', 'own');
    expect(first).toMatchObject({ approved: { note: toRevision(definition('note')) }, quarantined: [] });
    const other = definition('note', { category: 'text', timeout_seconds: 9 });
    await announce(other);
    expect((await service.get('acme', 'own'))?.approved).toEqual({ note: toRevision(other) });
  });

  it.each<[string, Partial<ToolDefinition>, string]>([
    ['the description', { description: 'Sends' }, 'changed: description'],
    [
      'the schema that an argument refers to',
      { input_schema: { ...definition('note').input_schema, $defs: { region: { enum: ['eu', 'ap'] } } } },
      'changed: $defs',
    ],
    [
      'an argument, so that its value does not fit',
      {
        input_schema: {
          ...definition('note').input_schema,
          properties: {
            text: { type: 'string' },
            limit: { type: 'integer', maximum: 2 },
            region: { $ref: '#/$defs/region' },
          },
        },
      },
      'changed: argument limit; ',
    ],
  ])('is out of effect until an approval when %s changes', async (_what, change, reason) => {
    const service = await started();
    await announce(definition('note'));
    await put(service, 'own@acme', SPEC);
    const changed = definition('note', change);
    await announce(changed);
    const { approved, quarantined } = (await service.get('acme', 'own'))!;
    expect([approved, quarantined[0]?.name]).toEqual([{}, 'note']);
    expect(quarantined[0]?.reason).toContain(reason);
    await expect(service.approve('own@acme', 'note', '0'.repeat(16), 'x')).rejects.toMatchObject({
      code: 'REQUEST_INVALID',
    });
    const approving = service.approve('own@acme', 'note', quarantined[0]!.pending_revision, 'acme/ann');
    if (reason.startsWith('changed: argument limit')) {
      await expect(approving).rejects.toMatchObject({ code: 'REQUEST_INVALID' });
      await put(service, 'own@acme', { overrides: { note: { ...SPEC.overrides!['note'], defaults: { limit: 1 } } } });
    } else {
      expect(await approving).toMatchObject({ version: 1, quarantined: [] });
    }
    expect((await service.get('acme', 'own'))?.approved).toEqual({ note: toRevision(changed) });
    // The definition is back to the previous, unapproved one.
    await announce(definition('note'));
    expect((await service.get('acme', 'own'))?.quarantined).toHaveLength(1);
  });

  it('of a tool that does not exist yet is pinned when it is first seen', async () => {
    const service = await started({ toolsets: { own: SPEC as JsonObject } });
    expect((await service.show('own')).notes).toEqual([
      'overrides.note: no tool of the fleet; it covers the tools of tenants with this name',
    ]);
    await announce(definition('note'));
    expect((await service.get('acme', 'own'))?.approved).toHaveProperty('note');
    await announce(definition('note', { description: 'Sends' }));
    expect((await service.get('acme', 'own'))?.approved).toEqual({});
  });

  it('of a shared toolset covers the tools of each tenant, and is approved for each', async () => {
    const service = await started({ toolsets: { own: SPEC as JsonObject } });
    await announce(definition('note', { tenant: 'acme' }), definition('sum'));
    expect((await service.get('acme', 'own'))?.approved).toHaveProperty('note');
    expect((await service.get('globex', 'own'))?.approved).toEqual({});
    await announce(definition('note', { tenant: 'acme', description: 'Sends' }), definition('sum'));
    const { approved, quarantined } = (await service.get('acme', 'own'))!;
    expect([approved, quarantined]).toMatchObject([{}, [{ name: 'note', reason: 'changed: description' }]]);
    // Administrators of other tenants read shared toolsets; only operators see the tools of a tenant.
    expect((await service.list(null))[0]?.quarantined).toEqual([]);
    expect((await service.list(undefined))[0]?.quarantined).toEqual(quarantined);
    await service.approve('own', 'note', quarantined[0]!.pending_revision, 'operator');
    expect((await service.get('acme', 'own'))?.approved).toHaveProperty('note');
    const pins = () => new RedisToolsetStore(redis).pins('own');
    expect([...(await pins()).keys()]).toEqual([expect.stringMatching(/^acme\/note /)]);
    await service.purgeTenant('acme', false);
    expect((await pins()).size).toBe(0);
  });

  it('of a tool that its tenant does not have is noted with the name that may be meant', async () => {
    const service = await started();
    await announce(definition('note', { tenant: 'acme' }));
    const { notes } = await put(service, 'own@acme', { overrides: { notes: { description: 'Writes' } } });
    expect(notes).toEqual(['overrides.notes: no such tool; did you mean note?']);
  });

  it('notes names and globs that match no tool', async () => {
    const service = await started({ toolsets: { shared: { include: { tools: ['note'] } } } });
    await announce(definition('note', { tenant: 'acme' }));
    const selections = { include: { tools: ['n*', 'nots', 'crm_*'] }, exclude: { tools: ['note'] } };
    expect((await put(service, 'own@acme', selections)).notes).toEqual([
      'include.tools: nots: no such tool; did you mean note?',
      'include.tools: crm_*: no such tool',
    ]);
    expect((await service.show('shared')).notes).toEqual([
      'include.tools: note: no tool of the fleet; it covers the tools of tenants with this name',
    ]);
  });

  it.each<[ToolsetSpec['overrides'], string]>([
    [{ note: { preset: { place: 'eu' } } }, "'place' is not an argument of note"],
    [{ note: { preset: { region: 'mars' } } }, 'region'],
    [{ note: { defaults: { limit: 10 } } }, 'limit'],
    [{ note: { hide: ['text'] } }, "'text' is required: preset it instead of hiding it"],
    [{ note: { hide: ['limit'], defaults: { limit: 1 } } }, "'limit' may be in only one of preset, defaults and hide"],
    [{ note: { name: 'a b' } }, 'name'],
    [{ note: { name: 'x' }, other: { name: 'x' } }, "'x' is the name of note already"],
    [{ note: { name: 'call_tool' } }, "'call_tool' is the name of a tool of the gateway already"],
  ])('that does not fit is refused: %j', async (overrides, message) => {
    const service = await started();
    await announce(definition('note'));
    const refused = put(service, 'own@acme', { overrides });
    await expect(refused).rejects.toMatchObject({ code: 'REQUEST_INVALID', message: expect.stringContaining(message) });
  });
});
