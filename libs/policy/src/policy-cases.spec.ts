import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { SystemClock } from '@toolfleet/resilience';
import type { PolicyInput } from './policy-engine.js';
import { readPolicyFolder } from './reloading-policy.js';
import { RegoPolicy } from './rego-policy.js';

const FOLDER = fileURLToPath(new URL('../../../deploy/policies', import.meta.url));

/** What a case leaves out. */
const DEFAULTS: PolicyInput = {
  tool: '',
  user: { id: 'someone', tenant: 'acme', roles: [], via: 'api_key' },
  arguments: {},
  origin: 'public',
  entry_point: 'http',
};

interface Case {
  name: string;
  input: Partial<Omit<PolicyInput, 'user'>> & { user?: Partial<PolicyInput['user']> };
  deny: string[];
  ask?: string[];
}

describe('the shipped policy', async () => {
  const policy = new RegoPolicy(await readPolicyFolder(FOLDER), new SystemClock());
  const cases = JSON.parse(readFileSync(`${FOLDER}/cases.json`, 'utf8')) as Case[];

  it.each(cases)('$name', ({ input, deny, ask = [] }) => {
    const full = { ...DEFAULTS, ...input, user: { ...DEFAULTS.user, ...input.user } };
    const decided = policy.decide(full);
    expect([decided.deny, decided.ask ?? []]).toEqual([deny.toSorted(), ask.toSorted()]);
  });

  it('denies file_write to users without roles', () => {
    const input = { tool: 'file_write', arguments: {} } as unknown as PolicyInput;
    expect(policy.decide(input).deny).toEqual(['file_write requires admin role']);
  });

  it('has a denying case for every message', () => {
    const messages = new Set(cases.flatMap(({ deny }) => deny));
    expect(messages.size).toBeGreaterThanOrEqual(4);
  });
});
