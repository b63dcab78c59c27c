/** Keys and Lua scripts of the budget in Redis. `lua/prelude.lua` documents the keys. */
import { readFileSync } from 'node:fs';

const PRELUDE = readFileSync(new URL('../lua/prelude.lua', import.meta.url), 'utf8');
/** For scripts that get all their arguments as one, a list of strings in JSON. */
const UNPACK = 'local ARGV = cjson.decode(ARGV[1])\n';

export const ACKNOWLEDGE = readFileSync(new URL('../lua/acknowledge.lua', import.meta.url), 'utf8');
export const REBUILD = readFileSync(new URL('../lua/rebuild.lua', import.meta.url), 'utf8');
export const RELEASE = PRELUDE + readFileSync(new URL('../lua/release.lua', import.meta.url), 'utf8');
export const RESERVE = UNPACK + PRELUDE + readFileSync(new URL('../lua/reserve.lua', import.meta.url), 'utf8');
export const SETTLE = UNPACK + PRELUDE + readFileSync(new URL('../lua/settle.lua', import.meta.url), 'utf8');
export const SWEEP = PRELUDE + readFileSync(new URL('../lua/sweep.lua', import.meta.url), 'utf8');

/** All keys of a tenant in the order of KEYS of the scripts. They share one hash tag, so that scripts run on Redis Cluster. */
type BudgetKeys = [
  scopes: string,
  seen: string,
  leases: string,
  expiry: string,
  done0: string,
  done1: string,
  outbox: string,
];

/** Set of all tenants with budget state. */
export const TENANTS_KEY = 'budget:tenants';

const cache = new Map<string, BudgetKeys>();
const MAX_CACHED = 10_000;

/** Keys of a tenant; cached, because every message needs them. */
export function budgetKeys(tenantId: string): BudgetKeys {
  const known = cache.get(tenantId);
  if (known) return known;
  if (cache.size >= MAX_CACHED) cache.clear();
  const tag = `{b:${tenantId}}`;
  const keys: BudgetKeys = [
    `${tag}:scopes`,
    `${tag}:seen`,
    `${tag}:leases`,
    `${tag}:expiry`,
    `${tag}:done0`,
    `${tag}:done1`,
    `${tag}:outbox`,
  ];
  cache.set(tenantId, keys);
  return keys;
}
