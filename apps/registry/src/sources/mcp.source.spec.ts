import { ToolError } from '@toolfleet/contracts';
import type { DiscoverReply } from '@toolfleet/contracts/execution';
import type { DefinitionRegister, DefinitionRegisterReply } from '@toolfleet/contracts/registry';
import type { Footing, SourceLook, StoredRegistration } from '../definition-store.js';
import { supersededError } from '../source-store.js';
import { createLogger } from '@toolfleet/telemetry';
import { FakeClock } from '@toolfleet/testing';
import { beforeEach, describe, expect, it } from 'vitest';
import { McpSource } from './mcp.source.js';

const answer = (names: string[], ttlMs = 0): DiscoverReply => ({
  server: 's',
  protocol_version: '2026-07-28',
  prior: { kind: 'legacy' },
  ttl_ms: ttlMs,
  tools: names.map((name) => ({ name, description: 'd', input_schema: { type: 'object' } })),
});
const registered = (message: DefinitionRegister): DefinitionRegisterReply => ({
  registered: message.definitions.map(({ name }) => name),
  added: [],
  changed: [],
  removed: [],
  refused: [],
  quarantined: [],
});

describe('McpSource', () => {
  let clock: FakeClock;
  let asked: number;
  let waitMs: number;
  let next: () => DiscoverReply | Promise<DiscoverReply>;
  let accept: (message: DefinitionRegister) => DefinitionRegisterReply | Promise<DefinitionRegisterReply>;
  let footings: (Footing | undefined)[];
  let announced: DefinitionRegister[];
  let looks: ({ name: string } & SourceLook)[];
  let source: McpSource;
  const settled = () => new Promise((resolve) => setImmediate(resolve));

  beforeEach(() => {
    clock = new FakeClock();
    asked = 0;
    next = () => answer(['a', 'b']);
    accept = registered;
    announced = [];
    footings = [];
    looks = [];
    source = new McpSource(
      {
        discover: async (_message, timeoutMs) => {
          asked += 1;
          waitMs = timeoutMs;
          return next();
        },
        register: async (message, footing) => {
          announced.push(message);
          footings.push(footing);
          return accept(message);
        },
        keepLook: async ({ name }, look) => void looks.push({ name, ...look }),
      },
      clock,
      createLogger({ service: 'test', level: 'silent', environment: 'test' }),
    );
  });

  it('registers what a server lists, with what pinning needs', async () => {
    await source.start([{ name: 's', url: 'https://s.example/mcp', trusted: true }]);
    await settled();
    expect(announced[0]).toMatchObject({
      source: { kind: 'mcp', name: 's' },
      replace: true,
      options: { trusted: true, pin: 'refuse' },
    });
    expect(announced[0]?.definitions.map(({ name }) => name)).toEqual(['s_a', 's_b']);
    expect(looks).toMatchObject([{ name: 's', state: 'ok', at: clock.now(), nextAt: clock.now() + 300_000 }]);
  });

  it('shows a source that starts slowly as pending, and waits as long as its entry says', async () => {
    const asking = Promise.withResolvers<DiscoverReply>();
    next = () => asking.promise;
    await source.start([{ name: 's', url: '', command: 'npx', args: ['-y', 'x'], start_seconds: 60 }]);
    await settled();
    expect([waitMs, looks]).toEqual([135_000, []]);
    await clock.advance(2_000);
    expect(looks).toMatchObject([
      { state: 'pending', notes: [expect.stringContaining('it has 60 s (start_seconds)')] },
    ]);
    asking.resolve(answer(['a']));
    await settled();
    expect(looks.at(-1)).toMatchObject({ state: 'ok', notes: [] });
    // A source that has tools stays as it is while it is read again.
    next = () => new Promise(() => {});
    await clock.advance(302_000);
    expect(looks).toHaveLength(2);
  });

  it('asks again after the promised time, and at once when the list changed', async () => {
    next = () => answer(['a'], 120_000);
    await source.start([{ name: 's', url: 'https://s.example/mcp' }]);
    await settled();
    await clock.advance(119_000);
    await settled();
    expect(asked).toBe(1);
    await clock.advance(1_000);
    await settled();
    expect(asked).toBe(2);
    source.changed('s');
    await clock.advance(0);
    await settled();
    expect(asked).toBe(3);
  });

  it('asks again when the list changed while it was asked or its answer was registered', async () => {
    const asking = Promise.withResolvers<DiscoverReply>();
    next = () => asking.promise;
    await source.start([{ name: 's', url: 'https://s.example/mcp' }]);
    await settled();
    source.changed('s');
    next = () => answer(['a', 'b']);
    asking.resolve(answer(['a']));
    await settled();
    const registering = Promise.withResolvers<void>();
    accept = async (message) => registering.promise.then(() => registered(message));
    clock.advance(0);
    await settled();
    expect(asked).toBe(2);
    source.changed('s');
    accept = registered;
    registering.resolve();
    await settled();
    clock.advance(0);
    await settled();
    expect(asked).toBe(3);
    clock.advance(0);
    await settled();
    expect(asked).toBe(3);
  });

  it('asks again when the list changed while a registration was made', async () => {
    const asking = Promise.withResolvers<DiscoverReply>();
    next = () => asking.promise;
    const adding = source.add({ name: 's', url: 'https://s.example/mcp', transport: 'auto' });
    await settled();
    source.changed('s');
    next = () => answer(['a', 'b']);
    asking.resolve(answer(['a']));
    expect(await adding).toMatchObject({ registered: ['s_a'] });
    clock.advance(0);
    await settled();
    expect(announced.map(({ definitions }) => definitions.length)).toEqual([1, 2]);
  });

  describe('registrations', () => {
    const entry = (url: string) => ({ name: 's', url, transport: 'auto' as const });
    const kept = (url: string): StoredRegistration<never> => ({ kind: 'mcp', name: 's', body: entry(url) as never });

    it('registers with what the registration is, a new one when it is made and a kept one when it is looked at', async () => {
      await source.add(entry('https://one.example/mcp'), kept('https://one.example/mcp'));
      await clock.run(300_000);
      expect(footings).toEqual(
        [true, false].map((isNew) => ({ registration: kept('https://one.example/mcp'), isNew })),
      );
    });

    it('brings nothing back when it is undone while the server is asked', async () => {
      const asking = Promise.withResolvers<DiscoverReply>();
      next = () => asking.promise;
      await source.follow([kept('https://one.example/mcp')]);
      await settled();
      source.forget('s');
      asking.resolve(answer(['a']));
      await settled();
      expect(announced).toEqual([]);
      expect(clock.pending).toBe(0);
    });

    it('lets go of one that was undone or replaced at another replica', async () => {
      await source.follow([kept('https://one.example/mcp')]);
      await settled();
      accept = () => {
        throw supersededError({ kind: 'mcp', name: 's' });
      };
      await clock.run(300_000);
      expect(await source.look('s')).toBe(false);
      expect(clock.pending).toBe(0);
      accept = registered;
      await source.follow([kept('https://two.example/mcp')]);
      await settled();
      expect(looks.at(-1)).toMatchObject({ name: 's', state: 'ok' });
      await source.follow([kept('https://two.example/mcp')]);
      expect(asked).toBe(3);
      await source.follow([]);
      expect(await source.look('s')).toBe(false);
      expect(clock.pending).toBe(0);
    });

    it('takes up a function once, and again when it was replaced', async () => {
      const one = {
        kind: 'mcp' as const,
        name: 'geo',
        body: { name: 'geo', url: 'https://g.example', func_name: 'f' },
      };
      await source.follow([one]);
      await source.follow([one]);
      expect(announced).toHaveLength(1);
      await source.follow([{ ...one, body: { ...one.body, url: 'https://h.example' } }]);
      expect(announced).toHaveLength(2);
    });

    it('leaves the newer of two answers when a look ends after the registration that replaced it', async () => {
      await source.follow([kept('https://one.example/mcp')]);
      await settled();
      const asking = Promise.withResolvers<DiscoverReply>();
      next = () => asking.promise;
      source.changed('s');
      clock.advance(0);
      await settled();
      next = () => answer(['new']);
      await source.add(entry('https://one.example/mcp'), kept('https://one.example/mcp'));
      asking.resolve(answer(['old']));
      await settled();
      expect(announced.at(-1)?.definitions.map(({ name }) => name)).toEqual(['s_new']);
    });
  });

  it('keeps trying a server that is unavailable or refuses the credential, and removes nothing', async () => {
    next = () => {
      throw asked === 1
        ? new ToolError('NETWORK_ERROR', { message: 'down' })
        : new ToolError('AUTH_NOT_CONFIGURED', { message: 'expired', facts: { reason: 'auth_failed' } });
    };
    await source.start([{ name: 's', url: 'https://s.example/mcp' }]);
    await settled();
    expect(looks.at(-1)).toMatchObject({ state: 'failed', error: 'down', nextAt: clock.now() + 1_000 });
    await clock.advance(1_000);
    await settled();
    expect(looks.at(-1)).toMatchObject({ state: 'auth_failed', error: 'expired' });
    next = () => answer(['a']);
    await clock.advance(2_000);
    await settled();
    expect(looks.at(-1)).toMatchObject({ name: 's', state: 'ok', refused: [] });
    expect(announced).toHaveLength(1);
    source.stop();
  });

  it('answers registrations at run time', async () => {
    expect(await source.add({ name: 'geo', url: 'https://g.example', func_name: 'geocode' })).toEqual({
      success: true,
      tool_name: 'geo',
      message: 'Registered 1 tool',
      registered: ['geo'],
      quarantined: [],
    });
    const [tool] = answer(['find']).tools;
    const schema = { type: 'object', properties: { id: { type: 'string', pattern: String.raw`^[\w]{1,2048}$` } } };
    next = () => ({ ...answer([]), tools: [{ ...tool!, input_schema: schema }] });
    expect(await source.add({ name: 'crm', url: 'https://crm.example/mcp', transport: 'auto' })).toMatchObject({
      success: true,
      message: expect.stringMatching(/^Registered 1 tool; crm_find: the pattern .* cannot be checked and is dropped$/),
    });
    next = () => ({
      ...answer(['a', 'b']),
      prompts: [{ name: 'review' }],
      resources: { resources: [{ uri: 'docs://a' }], resourceTemplates: [] },
    });
    expect(await source.add({ name: 'docs', url: 'https://docs.example/mcp' })).toMatchObject({
      message: expect.stringMatching(/^Registered 2 tools, 1 prompt, resources;/),
    });
    next = () => {
      throw new ToolError('EGRESS_REFUSED', { message: 'Refused by the egress guard' });
    };
    expect(await source.add({ name: 'bad', url: 'http://10.0.0.1/', transport: 'auto' })).toMatchObject({
      success: false,
      message: 'Registration error: Refused by the egress guard',
    });
  });
});
