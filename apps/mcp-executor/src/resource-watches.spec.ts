import { LEASE_MS, LEASE_RENEWAL_MS, type ResourceLease } from '@toolfleet/contracts/execution';
import { SUBJECTS } from '@toolfleet/contracts/subjects';
import { FakeClock } from '@toolfleet/testing';
import type { NatsClient } from '@toolfleet/transport';
import { beforeEach, describe, expect, it } from 'vitest';
import { ResourceLeases } from './resource-leases.js';
import { ResourceWatches } from './resource-watches.js';

describe('leases', () => {
  it('want each address once, until the last lease of it is over', () => {
    const leases = new ResourceLeases();
    leases.renew('g1', ['a', 'b'], 0);
    leases.renew('g2', ['b', 'c'], LEASE_RENEWAL_MS);
    expect(leases.wanted(LEASE_MS - 1)).toEqual(new Set(['a', 'b', 'c']));
    expect(leases.wanted(LEASE_MS)).toEqual(new Set(['b', 'c']));
    leases.renew('g2', ['c'], LEASE_MS);
    expect(leases.wanted(LEASE_MS)).toEqual(new Set(['c']));
    leases.renew('g2', [], LEASE_MS);
    expect(leases.wanted(LEASE_MS)).toEqual(new Set());
  });
});

describe('executors', () => {
  type Receive = Parameters<NatsClient['subscribe']>[1];
  let clock: FakeClock;
  /** Receivers of the executors that live, by executor. */
  let receivers: Map<string, Map<string, Receive>>;
  /** What each executor subscribes to at the source. */
  let upstream: Map<string, string[]>;
  let reports: Map<string, (uri: string) => void>;
  let updates: unknown[];

  let sent: { subject: string; body: unknown }[];

  /** Delivers one message after another, as a connection does. */
  function publish(subject: string, body: unknown): void {
    if (sent.push({ subject, body }) > 1) return;
    for (; sent.length > 0; sent.shift()) {
      const message = { ...sent[0]!, headers: {} as never };
      for (const of of [...receivers.values()]) of.get(message.subject)?.(message);
      if (message.subject === SUBJECTS.mcpUpdated) updates.push(message.body);
    }
  }

  function start(name: string): () => Promise<void> {
    const subjects = new Map<string, Receive>();
    receivers.set(name, subjects);
    const nats = {
      connected: true,
      publish: (subject: string, body: unknown) => receivers.has(name) && publish(subject, body),
      subscribe: (subject: string, receive: Receive) => void subjects.set(subject, receive),
    } as unknown as NatsClient;
    const watches = new ResourceWatches(
      nats,
      clock,
      ({ url }, onUpdated) => {
        if (url === 'invalid') throw new Error('invalid options');
        reports.set(name, onUpdated);
        return {
          want: (uris) => void upstream.set(name, [...uris]),
          close: () => void upstream.delete(name),
        };
      },
      name,
    );
    void watches.asComponent().start();
    return () => watches.asComponent().stop();
  }

  const lease = (gateway: string, ...uris: string[]): void =>
    publish(SUBJECTS.execMcpWatch, {
      gateway,
      source: 's',
      binding: { kind: 'mcp' },
      uris,
    } as unknown as ResourceLease);

  beforeEach(() => {
    clock = new FakeClock();
    receivers = new Map();
    upstream = new Map();
    reports = new Map();
    updates = [];
    sent = [];
  });

  it('subscribe once at a source for all gateways, and tell of updates', () => {
    start('e2');
    start('e1');
    lease('g1', 'a');
    lease('g2', 'b');
    expect(upstream.size).toBe(0);
    clock.advance(LEASE_RENEWAL_MS);
    expect([...upstream]).toEqual([['e1', ['a', 'b']]]);
    reports.get('e1')!('a');
    expect(updates).toEqual([{ source: 's', uri: 'a' }]);
  });

  it('unsubscribe when no gateway is left: one ends its lease, one is killed', () => {
    start('e1');
    lease('g1', 'a');
    lease('g2', 'b');
    clock.advance(LEASE_RENEWAL_MS);
    lease('g1');
    expect([...upstream]).toEqual([['e1', ['b']]]);
    clock.advance(LEASE_MS + LEASE_RENEWAL_MS);
    expect([...upstream]).toEqual([]);
  });

  it('take over from one that is gone', async () => {
    const stop = start('e1');
    start('e2');
    lease('g1', 'a');
    clock.advance(LEASE_RENEWAL_MS);
    expect([...upstream.keys()]).toEqual(['e1']);
    receivers.delete('e1');
    await stop();
    for (let renewals = 0; renewals < 5; renewals += 1) {
      lease('g1', 'a');
      clock.advance(LEASE_RENEWAL_MS);
    }
    expect([...upstream]).toEqual([['e2', ['a']]]);
  });

  it('stay at work where the options of a source are invalid', () => {
    start('e1');
    const binding = { kind: 'mcp', url: 'invalid' };
    publish(SUBJECTS.execMcpWatch, { gateway: 'g1', source: 'broken', binding, uris: ['a'] });
    clock.advance(LEASE_RENEWAL_MS);
    lease('g1', 'a');
    clock.advance(LEASE_RENEWAL_MS);
    expect([...upstream]).toEqual([['e1', ['a']]]);
  });

  it('ignore messages that are not leases or claims', () => {
    start('e1');
    publish(SUBJECTS.execMcpWatch, { gateway: 'g1', source: 's', uris: ['a'] });
    publish(SUBJECTS.execMcpWatch, 'x');
    publish(SUBJECTS.execMcpWatch, { gateway: 'g1', source: 's', binding: { kind: 'mcp' }, uris: [1] });
    publish(SUBJECTS.execMcpClaim, { source: 's' });
    clock.advance(LEASE_RENEWAL_MS);
    expect(upstream.size).toBe(0);
  });
});
