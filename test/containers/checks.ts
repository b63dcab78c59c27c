/**
 * The checks of the short form of the container tests, by name. A check answers with its findings, none where the fleet is
 * as it should be: `faults.spec.ts` plants faults that each of them has to find.
 */
import { eventually } from '@toolfleet/testing';
import type { ComposedFleet } from './composed-fleet.js';
import { reachedFrom, rightsOf, wrongRights } from './locked-down.js';

type Check = (fleet: ComposedFleet) => Promise<string[]>;

const nothing: string[] = [];
const complaint = (error: unknown): string[] => [(error as Error).message];

/** Services with an own image that `fleet` runs from it, and its stores. */
const checked = (fleet: ComposedFleet): string[] =>
  ['nats', 'redis', 'gateway', 'python-sandbox'].filter((name) => fleet.services[name]);

/** The status for a key that the gateway looks up in Redis, once the gateway has an answer from there. */
async function statusOf(fleet: ComposedFleet, key: string): Promise<number> {
  let status = 0;
  const isAnswered = async () => {
    status = (await fleet.ask({ path: '/api/v1/me', key })).status;
    return status !== 503;
  };
  await eventually('the gateway has an answer of Redis', isAnswered, { everyMs: 250, timeoutMs: 60_000 });
  return status;
}

export const CHECKS = {
  'health checks pass': async (fleet) =>
    Promise.all(checked(fleet).map((name) => fleet.untilHealthy(name))).then(() => nothing, complaint),

  'users, capabilities and mounts are as expected': async (fleet) =>
    (await Promise.all(checked(fleet).map(async (name) => wrongRights(name, await rightsOf(fleet, name))))).flat(),

  'the sandbox reaches Redis only': async (fleet) => {
    const reached = await reachedFrom(fleet, 'python-sandbox');
    return [
      ...reached.filter((port) => port !== 'redis:6379').map((port) => `python-sandbox reaches ${port}`),
      ...(reached.includes('redis:6379') ? nothing : ['python-sandbox does not reach redis:6379']),
    ];
  },

  'the console is served outside': async (fleet) => {
    try {
      const { status, text } = await fleet.ask({ path: '/console', key: null });
      return status === 200 && text.includes('toolfleet console') ? nothing : [`the console: ${status} ${text}`];
    } catch (error) {
      return [`the console: ${String((error as Error).cause ?? error)}`];
    }
  },

  'a restart of Redis loses no key': async (fleet) => {
    const body = { client: 'kept', tenant_id: 'acme', roles: ['admin'] };
    const made = await fleet.ask({ path: '/api/v1/keys', body, key: fleet.secret('dev_api_key') });
    if (made.status !== 201) return [`no key was made: ${made.status} ${made.text}`];
    const key = String(made.body.token);
    await fleet.restart('redis');
    await fleet.untilHealthy('redis');
    const status = await statusOf(fleet, key);
    return status === 200 ? nothing : [`a key made before the restart of Redis: ${status}`];
  },
} as const satisfies Record<string, Check>;

export type CheckName = keyof typeof CHECKS;
