import type { Principal } from '@toolfleet/contracts';
import { LEASE_RENEWAL_MS, type ResourceLease } from '@toolfleet/contracts/execution';
import { SUBJECTS } from '@toolfleet/contracts/subjects';
import type { RegisteredTool } from '@toolfleet/contracts/tool-definition';
import { FakeClock } from '@toolfleet/testing';
import type { NatsClient } from '@toolfleet/transport';
import { beforeEach, expect, it } from 'vitest';
import { ResourceSubscriptions } from './resource-subscriptions.js';

type Receive = Parameters<NatsClient['subscribe']>[1];

let clock: FakeClock;
let leases: ResourceLease[];
let receive: Receive;
let subscriptions: ResourceSubscriptions;
/** Addresses that callers may see. */
let visible: Set<string>;

const principalOf = (tenantId: string) => ({ tenantId }) as Principal;

beforeEach(() => {
  clock = new FakeClock();
  leases = [];
  visible = new Set(['x://crm/a', 'x://crm/b']);
  const nats = {
    connected: true,
    publish: (_subject: string, lease: ResourceLease) => void leases.push(lease),
    subscribe: (_subject: string, received: Receive) => void (receive = received),
  } as unknown as NatsClient;
  subscriptions = new ResourceSubscriptions(nats, clock, (error) => {
    throw error;
  });
});

function subscribe(tenant: string, addresses: string[], prior?: string): { heard: string[]; leave: () => void } {
  const heard: string[] = [];
  const binding = { kind: 'mcp', server: 'crm', options: { prior } };
  const definition = { tenant, name: 'resource:crm', binding } as unknown as RegisteredTool;
  const { close: leave } = subscriptions.add({
    principal: principalOf(tenant),
    addresses,
    find: async (address) => (visible.has(address) ? { definition, uri: address.slice('x://crm/'.length) } : undefined),
    onUpdated: (address) => heard.push(address),
  });
  return { heard, leave };
}

const update = (source: string, uri: string): void =>
  receive({ subject: SUBJECTS.mcpUpdated, headers: {} as never, body: { source, uri } });

it('leases what all clients want of a source, and tells those of a resource', async () => {
  const first = subscribe('acme', ['x://crm/a', 'x://crm/b']);
  const second = subscribe('acme', ['x://crm/b', 'x://crm/hidden'], 'another revision');
  const other = subscribe('evil', ['x://crm/a']);
  await clock.run(100);
  expect(leases.map(({ uris }) => uris)).toEqual([['a', 'b'], ['a']]);
  const source = leases[0]!.source;
  // It may have changed before the subscription began.
  expect([first.heard, second.heard, other.heard]).toEqual([['x://crm/a', 'x://crm/b'], ['x://crm/b'], ['x://crm/a']]);
  for (const { heard } of [first, second, other]) heard.length = 0;
  update(source, 'b');
  update(source, 'a');
  update('unknown', 'a');
  expect([first.heard, second.heard, other.heard]).toEqual([['x://crm/b', 'x://crm/a'], ['x://crm/b'], []]);
  first.leave();
  update(source, 'a');
  expect(first.heard).toHaveLength(2);
  const late = subscribe('acme', ['x://crm/b']);
  await clock.run(100);
  await clock.run(LEASE_RENEWAL_MS);
  expect([late.heard, second.heard]).toEqual([['x://crm/b'], ['x://crm/b']]);
  late.leave();
  second.leave();
  leases.length = 0;
  await clock.run(100);
  expect(leases).toEqual([expect.objectContaining({ source, uris: [] }), expect.objectContaining({ uris: ['a'] })]);
});

it('renews leases as long as the client sees the resource', async () => {
  subscribe('acme', ['x://crm/a', 'x://crm/b']);
  await clock.run(LEASE_RENEWAL_MS);
  visible.delete('x://crm/a');
  await clock.run(LEASE_RENEWAL_MS);
  visible.clear();
  await clock.run(LEASE_RENEWAL_MS);
  expect(leases.map(({ uris }) => uris)).toEqual([['a', 'b'], ['b'], []]);
});

it('bounds the resources of a stream and of a tenant', () => {
  expect(() => subscriptions.check(principalOf('acme'), 101)).toThrow(
    'may subscribe to 100 resources; this one names 101',
  );
  for (let streams = 0; streams < 10; streams += 1) {
    subscriptions.check(principalOf('acme'), 100);
    subscribe('acme', Array(100).fill('x://crm/a'));
  }
  expect(() => subscriptions.check(principalOf('acme'), 1)).toThrow('more than 1000 resources');
  subscriptions.check(principalOf('evil'), 100);
});
