import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { ToolDefinition } from '@toolfleet/contracts/tool-definition';
import { FakeClock, startRedis, type RedisServer } from '@toolfleet/testing';
import { type Footing, type StoredRegistration, type StoredTool, type ToolWrite } from './definition-store.js';
import { MemoryDefinitionStore } from '../spec/memory-definition-store.js';
import { RedisDefinitionStore, type DefinitionStore } from './redis-definition-store.js';

const QUOTAS = { sources: 20, source_bytes: 1_000_000 };

interface Subject {
  store: DefinitionStore;
  /** Lets at least so many milliseconds of store time pass. */
  advance(ms: number): Promise<void>;
}

const tool = (key: string, owner: string, revision = 'r1'): StoredTool => ({
  key,
  owner,
  revision,
  definition: { name: key, description: `${key} ${revision}` } as ToolDefinition,
});
const written = (...tools: StoredTool[]): ToolWrite[] => tools.map((one) => ({ tool: one }));
const registration = (name: string, note = ''): StoredRegistration => ({ kind: 'openapi', name, body: { name, note } });
const made = (one: StoredRegistration): Footing => ({ registration: one, isNew: true });
const keysOf = (tools: StoredTool[]) => tools.map((one) => one.key).toSorted();

function conformance(name: string, make: () => Promise<Subject>): void {
  describe(`definition store: ${name}`, () => {
    it('keeps tools, and tells a reader what it has not seen', async () => {
      const { store } = await make();
      expect(await store.version()).toBe(0);
      const first = await store.put('builtin/a', written(tool('x', 'builtin/a'), tool('y', 'builtin/a')));
      expect(first).toMatchObject({ version: 1, added: ['x', 'y'], changed: [], conflicts: [] });
      await store.put('builtin/b', written(tool('z', 'builtin/b')));
      const all = await store.changesSince(0);
      expect({ ...all, tools: keysOf(all.tools) }).toEqual({
        version: 2,
        tools: ['x', 'y', 'z'],
        removed: [],
        away: [],
      });
      expect(all.tools.find((one) => one.key === 'x')).toEqual(tool('x', 'builtin/a'));
      expect(keysOf((await store.changesSince(1)).tools)).toEqual(['z']);
      expect(await store.changesSince(2)).toEqual({ version: 2, tools: [], removed: [], away: [] });
    });

    it('changes the version only when something changed', async () => {
      const { store } = await make();
      await store.put('builtin/a', written(tool('x', 'builtin/a')));
      expect(await store.put('builtin/a', written(tool('x', 'builtin/a')))).toMatchObject({
        version: 1,
        added: [],
        changed: [],
      });
      const changed = await store.put('builtin/a', written(tool('x', 'builtin/a', 'r2')));
      expect(changed).toMatchObject({ version: 2, added: [], changed: ['x'] });
      expect((await store.changesSince(1)).tools[0]?.revision).toBe('r2');
      expect(await store.retain('builtin/a', ['x'])).toMatchObject({ version: 2, removed: [] });
    });

    it('keeps the protections of a tool until they are dropped, also when the tool is removed', async () => {
      const { store } = await make();
      expect(await store.floors([])).toEqual(new Map());
      await store.raiseFloors(new Map());
      await store.raiseFloors(new Map([['x', { dangerous: true }]]));
      await store.raiseFloors(new Map([['y', { required_roles: ['ops'] }]]));
      await store.put('builtin/a', written(tool('x', 'builtin/a')));
      await store.forget('builtin/a');
      expect(await store.floors(['x', 'y', 'z'])).toEqual(
        new Map<string, object>([
          ['x', { dangerous: true }],
          ['y', { required_roles: ['ops'] }],
        ]),
      );
      await store.dropFloors(['x']);
      await store.dropFloors([]);
      expect([...(await store.floors(['x', 'y'])).keys()]).toEqual(['y']);
    });

    it('keeps the pins of removed tools, by owner', async () => {
      const { store } = await make();
      await store.keepPins('mcp/a', new Map([['x', 'p1']]));
      await store.keepPins(
        'mcp/a',
        new Map([
          ['x', 'p2'],
          ['y', 'p3'],
        ]),
      );
      await store.keepPins('mcp/b', new Map([['x', 'p4']]));
      expect(await store.removedPins('mcp/a', ['x', 'y', 'z'])).toEqual(new Map(Object.entries({ x: 'p2', y: 'p3' })));
      await store.dropPins('mcp/a');
      expect(await store.removedPins('mcp/a', ['x'])).toEqual(new Map());
      expect(await store.removedPins('mcp/b', ['x'])).toEqual(new Map([['x', 'p4']]));
      expect(await store.removedPins('mcp/b', [])).toEqual(new Map());
    });

    it('keeps the document of an owner until it is dropped', async () => {
      const { store } = await make();
      expect(await store.documentHash('openapi/a')).toBeUndefined();
      await store.keepDocumentHash('openapi/a', 'one');
      await store.keepDocumentHash('openapi/a', 'two');
      expect([await store.documentHash('openapi/a'), await store.documentHash('openapi/b')]).toEqual([
        'two',
        undefined,
      ]);
      await store.keepDocumentHash('openapi/a', undefined);
      expect(await store.documentHash('openapi/a')).toBeUndefined();
    });

    it('keeps the last look at a source and when one last succeeded', async () => {
      const { store } = await make();
      const ok = { state: 'ok' as const, at: 1, refused: [], notes: ['n'], nextAt: 5 };
      await store.keepLook('mcp/a', ok);
      await store.keepLook('mcp/b', ok);
      await store.keepLook('mcp/a', { state: 'failed', at: 2, error: 'x'.repeat(5_000), refused: [], notes: [] });
      expect((await store.looks()).get('mcp/a')).toEqual({
        state: 'failed',
        at: 2,
        okAt: 1,
        error: 'x'.repeat(1_000),
        refused: [],
        notes: [],
      });
      const sees = (at: number, protocolVersion?: string) => store.keepLook('mcp/a', { ...ok, at, protocolVersion });
      await sees(3, '2025-11-25');
      await sees(4, '2026-07-28');
      await sees(5);
      expect((await store.looks()).get('mcp/a')).toMatchObject({
        protocolVersion: '2026-07-28',
        protocolSwitch: { from: '2025-11-25', at: 4 },
      });
      await store.keepLook('mcp/a', undefined);
      expect([...(await store.looks())]).toEqual([['mcp/b', { ...ok, okAt: 1 }]]);
    });

    it('sees a change of quarantine as a change', async () => {
      const { store } = await make();
      await store.put('mcp/a', written(tool('x', 'mcp/a')));
      const pending = tool('x', 'mcp/a', 'r2').definition;
      const quarantine = { reason: 'changed', sinceAt: 1, pending, pendingRevision: 'r2', wasApproved: true };
      const held = { ...tool('x', 'mcp/a'), quarantine };
      expect(await store.put('mcp/a', written(held))).toMatchObject({ changed: ['x'] });
      expect(await store.put('mcp/a', written(held))).toMatchObject({ changed: [] });
      expect((await store.changesSince(1)).tools[0]?.quarantine).toEqual(quarantine);
      expect(await store.replace(tool('x', 'mcp/a', 'r2'), held)).toMatchObject({ changed: ['x'], version: 3 });
      expect(await store.replace(tool('x', 'mcp/a', 'r3'), held)).toMatchObject({ changed: [], version: 3 });
      expect(await store.replace(tool('x', 'mcp/b', 'r2'), tool('x', 'mcp/a', 'r2'))).toMatchObject({ changed: [] });
      expect((await store.changesSince(2)).tools).toEqual([tool('x', 'mcp/a', 'r2')]);
    });

    it('writes over what the decision was made on, and over nothing else', async () => {
      const { store } = await make();
      const [r1, r2, r3] = ['r1', 'r2', 'r3'].map((revision) => tool('x', 'mcp/a', revision)) as [
        StoredTool,
        StoredTool,
        StoredTool,
      ];
      expect(await store.put('mcp/a', [{ tool: r1, over: null }])).toMatchObject({ added: ['x'], moved: [] });
      expect(await store.put('mcp/a', [{ tool: r2, over: null }])).toMatchObject({ changed: [], moved: ['x'] });
      expect(await store.put('mcp/a', [{ tool: r2, over: r1 }])).toMatchObject({ changed: ['x'], moved: [] });
      expect(await store.put('mcp/a', [{ tool: r3, over: r1 }])).toMatchObject({ changed: [], moved: ['x'] });
      // The stored tool results from the same decision by another replica.
      expect(await store.put('mcp/a', [{ tool: r2, over: r1 }])).toMatchObject({ changed: [], moved: [], version: 2 });
      expect(await store.put('mcp/a', written(r3))).toMatchObject({ changed: ['x'], moved: [] });
    });

    it('never gives a name to a second owner', async () => {
      const { store } = await make();
      const owners = Array.from({ length: 10 }, (_, index) => `mcp/s${index}`);
      const answers = await Promise.all(
        owners.map((owner) => store.put(owner, written(tool('x', owner), tool(owner, owner)))),
      );
      expect(answers.filter((answer) => answer.added.includes('x'))).toHaveLength(1);
      const [{ owner } = { owner: '' }] = (await store.changesSince(0)).tools.filter((one) => one.key === 'x');
      const losers = answers.flatMap((answer) => answer.conflicts);
      expect(losers).toEqual(Array.from({ length: 9 }, () => ({ key: 'x', owner })));
      expect(await store.remove('mcp/other', ['x'])).toMatchObject({ removed: [] });
    });

    it('retires what an owner no longer names, and nothing that belongs to others', async () => {
      const { store } = await make();
      await store.put('builtin/a', written(tool('x', 'builtin/a'), tool('y', 'builtin/a'), tool('w', 'builtin/a')));
      await store.put('builtin/b', written(tool('z', 'builtin/b')));
      expect(await store.retain('builtin/a', ['x', 'z'])).toMatchObject({ version: 3 });
      expect((await store.changesSince(2)).removed.toSorted()).toEqual(['w', 'y']);
      expect(await store.remove('builtin/a', ['x', 'z'])).toMatchObject({ version: 4, removed: ['x'] });
      expect(await store.put('builtin/b', written(tool('x', 'builtin/b')))).toMatchObject({ added: ['x'] });
    });

    it('marks an owner away when it does not come back in time, once, and back when it does', async () => {
      const { store, advance } = await make();
      await store.put('builtin/a', written(tool('x', 'builtin/a')), { ttlMs: 60_000 });
      await store.put('builtin/b', written(tool('y', 'builtin/b')));
      expect(await store.expire()).toEqual([]);
      await store.put('builtin/a', written(tool('x', 'builtin/a')), { ttlMs: 1 });
      await advance(20);
      const [expired, again] = await Promise.all([store.expire(), store.expire()]);
      const all = [...(expired ?? []), ...(again ?? [])];
      expect(all).toEqual([{ owner: 'builtin/a', change: { version: 3, added: [], changed: ['x'], removed: [] } }]);
      expect(await store.changesSince(2)).toMatchObject({ away: ['builtin/a'], version: 3 });
      const back = await store.put('builtin/a', written(tool('x', 'builtin/a')), { ttlMs: 60_000 });
      expect(back).toMatchObject({ version: 4, added: [], changed: ['x'] });
      expect((await store.changesSince(3)).away).toEqual([]);
    });

    it('forgets the lease of an owner without tools', async () => {
      const { store, advance } = await make();
      await store.put('builtin/a', written(tool('x', 'builtin/a')), { ttlMs: 1 });
      await store.remove('builtin/a', ['x']);
      await advance(20);
      expect(await store.expire()).toEqual([]);
    });

    it('takes thousands of tools of one owner', async () => {
      const { store } = await make();
      const many = Array.from({ length: 2_500 }, (_, index) => tool(`t${index}`, 'openapi/big'));
      const put = await store.put('openapi/big', written(...many), { footing: made(registration('big')) });
      expect(put.added).toHaveLength(2_500);
      expect((await store.changesSince(0)).tools).toHaveLength(2_500);
      expect((await store.retain('openapi/big', keysOf(many).slice(0, 100))).removed).toHaveLength(2_400);
    });

    it('keeps a registration with its tools, the last one of a source', async () => {
      const { store } = await make();
      await store.put('openapi/a', written(tool('x', 'openapi/a')), { footing: made(registration('a', 'old')) });
      await store.put('mcp/a', written(tool('y', 'mcp/a')), { footing: made({ ...registration('a'), kind: 'mcp' }) });
      await store.put('openapi/a', written(tool('x', 'openapi/a')), { footing: made(registration('a', 'new')) });
      const kept = await store.registrations();
      expect(kept.toSorted((a, b) => (a.kind < b.kind ? -1 : 1))).toEqual([
        { ...registration('a'), kind: 'mcp' },
        registration('a', 'new'),
      ]);
    });

    it('keeps registrations of a tenant up to its quota, without harm to others', async () => {
      const { store } = await make();
      const keep = (source: string, note = '') =>
        store.put(`openapi/${source}`, written(tool(`t-${source}`, `openapi/${source}`)), {
          footing: made(registration(source, note)),
        });
      const half = 'x'.repeat(QUOTAS.source_bytes / 2);
      await keep('a@acme', half);
      await expect(keep('b@acme', half)).rejects.toMatchObject({ code: 'QUOTA_EXCEEDED' });
      await keep('a@acme', half);
      await keep('b@globex', half);
      await keep('b', half);
      expect((await store.changesSince(0)).tools.map(({ key }) => key).toSorted()).toEqual(
        ['t-a@acme', 't-b', 't-b@globex'].toSorted(),
      );
      for (let index = 1; index < QUOTAS.sources; index += 1) await keep(`n${index}@acme`);
      await expect(keep('last@acme')).rejects.toThrow('registered sources is used up: 20 per tenant');
      await store.forget('openapi/n1@acme');
      await keep('last@acme');
    });

    it('keeps no registration all of whose tools are of others', async () => {
      const { store } = await make();
      await store.put('openapi/a', written(tool('x', 'openapi/a')));
      await store.put('openapi/b', written(tool('x', 'openapi/b')), { footing: made(registration('b')) });
      expect(await store.registrations()).toEqual([]);
      const some = written(tool('x', 'openapi/b'), tool('y', 'openapi/b'));
      await store.put('openapi/b', some, { footing: made(registration('b')) });
      await store.put('openapi/c', [], { footing: made(registration('c')) });
      expect((await store.registrations()).map((one) => one.name).toSorted()).toEqual(['b', 'c']);
    });

    it('writes and removes nothing for a registration that was replaced or forgotten', async () => {
      const { store } = await make();
      const owner = 'openapi/a';
      const look = (body: string): Footing => ({ registration: registration('a', body), isNew: false });
      await store.put(owner, written(tool('x', owner)), { footing: made(registration('a', 'old')) });
      expect(await store.put(owner, written(tool('y', owner)), { footing: look('old') })).toMatchObject({
        added: ['y'],
        isSuperseded: false,
      });
      await store.put(owner, written(tool('x', owner, 'r2')), { footing: made(registration('a', 'new')) });
      expect(await store.put(owner, written(tool('x', owner)), { footing: look('old') })).toMatchObject({
        changed: [],
        isSuperseded: true,
      });
      expect(await store.retain(owner, [], registration('a', 'old'))).toMatchObject({ removed: [] });
      expect(await store.retain(owner, ['x'], registration('a', 'new'))).toMatchObject({ removed: ['y'] });
      expect(await store.forget(owner)).toMatchObject({ removed: ['x'], wasKept: true });
      expect(await store.forget(owner)).toMatchObject({ removed: [], wasKept: false });
      expect(await store.put(owner, written(tool('x', owner)), { footing: look('new') })).toMatchObject({
        isSuperseded: true,
      });
      expect(await store.changesSince(0)).toMatchObject({ tools: [] });
      expect(await store.registrations()).toEqual([]);
    });

    it('removes orphans, and leaves alone what is registered', async () => {
      const { store } = await make();
      await store.put('openapi/a', written(tool('x', 'openapi/a')), { footing: made(registration('a')) });
      await store.put('openapi/b', written(tool('y', 'openapi/b')));
      expect(await store.removeOrphans('openapi/a')).toMatchObject({ removed: [] });
      expect(await store.removeOrphans('openapi/b')).toMatchObject({ removed: ['y'] });
    });
  });
}

conformance('memory', async () => {
  const clock = new FakeClock();
  return { store: new MemoryDefinitionStore(clock, QUOTAS), advance: async (ms) => void clock.advance(ms) };
});

describe('on Redis', () => {
  let server: RedisServer;
  beforeAll(async () => {
    server = await startRedis();
  });
  beforeEach(() => server.flush());
  afterAll(() => server.stop());
  conformance('redis', async () => ({
    store: new RedisDefinitionStore(server.client(), QUOTAS),
    advance: (ms) => new Promise((resolve) => setTimeout(resolve, ms)),
  }));
});
