/** The rules that docs/policy.md shows, as a reader would copy them. */
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { SystemClock } from '@toolfleet/resilience';
import type { PolicyInput } from './policy-engine.js';
import { RegoPolicy } from './rego-policy.js';

const PAGE = fileURLToPath(new URL('../../../docs/policy.md', import.meta.url));
const rules = [...readFileSync(PAGE, 'utf8').matchAll(/^```rego\n(.*?)^```$/gms)].map(([, text]) => text).join('\n');
const policy = new RegoPolicy([{ name: 'examples.rego', text: rules }], new SystemClock());

const ask = (args: PolicyInput['arguments'], roles: string[] = []): string[] | undefined =>
  policy.decide({
    tool: 'crm_delete_customer',
    user: { id: 'ann', tenant: 'acme', roles, via: 'api_key' },
    arguments: args,
    origin: 'public',
    entry_point: 'mcp',
  }).ask;

describe('the example of a rule that asks', () => {
  it.each<[string, PolicyInput['arguments'], string]>([
    ['with its argument', { id: 'c7' }, 'Permanently delete customer c7?'],
    ['without it', {}, 'Permanently delete customer (none named)?'],
    ['with null for it', { id: null }, 'Permanently delete customer null?'],
    ['with an object for it', { id: { a: 1 } }, 'Permanently delete customer {"a": 1}?'],
  ])('asks %s', (_, args, question) => {
    expect(ask(args)).toEqual([question]);
  });

  it('asks no administrator', () => {
    expect(ask({}, ['admin'])).toBeUndefined();
  });
});
