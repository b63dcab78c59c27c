import {
  ToolError,
  type DefinitionRegister,
  type DefinitionRegisterReply,
  type DiscoverReply,
} from '@toolfleet/contracts';
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
  let next: () => DiscoverReply;
  let announced: DefinitionRegister[];
  let source: McpSource;
  const settled = () => new Promise((resolve) => setImmediate(resolve));

  beforeEach(() => {
    clock = new FakeClock();
    asked = 0;
    next = () => answer(['a', 'b']);
    announced = [];
    source = new McpSource(
      {
        discover: async () => {
          asked += 1;
          return next();
        },
        register: async (message) => {
          announced.push(message);
          return registered(message);
        },
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
    expect(source.states()).toEqual([{ server: 's', state: 'ok', tools: 2 }]);
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

  it('keeps trying a server that is away or refuses the credential, and retires nothing', async () => {
    next = () => {
      throw asked === 1
        ? new ToolError('NETWORK_ERROR', { message: 'down' })
        : new ToolError('AUTH_NOT_CONFIGURED', { message: 'expired', details: { state: 'auth_failed' } });
    };
    await source.start([{ name: 's', url: 'https://s.example/mcp' }]);
    await settled();
    expect(source.states()).toMatchObject([{ state: 'away', error: 'down' }]);
    await clock.advance(1_000);
    await settled();
    expect(source.states()).toMatchObject([{ state: 'auth_failed', error: 'expired' }]);
    next = () => answer(['a']);
    await clock.advance(2_000);
    await settled();
    expect(source.states()).toMatchObject([{ state: 'ok', tools: 1 }]);
    expect(announced).toHaveLength(1);
    source.stop();
  });

  it('answers registrations at run time', async () => {
    expect(await source.add({ name: 'geo', url: 'https://g.example', func_name: 'geocode' })).toEqual({
      success: true,
      tool_name: 'geo',
      message: 'Registered 1 tool(s)',
      registered: ['geo'],
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
