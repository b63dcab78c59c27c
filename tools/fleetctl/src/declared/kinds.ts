import type { ApiKey, Budget, KeyRights, NewWebhook, SourceStatus, ToolsetSummary, Webhook } from '@toolfleet/client';
import type { JsonObject } from '@toolfleet/contracts';
import { ROUTES } from '@toolfleet/contracts/resources';
import type { Environment } from '../connection.js';
import type { Gateway } from '../gateway.js';
import type { DeclaredBudget, FleetFiles } from './declaration.js';
import type { Current, Kind, Wanted } from './resources.js';
import { expandSecret, expandSource, isSameSecret, secretDigest } from './source-secrets.js';

type Registered = Partial<Pick<SourceStatus, 'quarantined' | 'refused'>>;

/** Where a declared fleet is applied. */
export interface Target {
  gateway: Gateway;
  env: Environment['env'];
  /** Tenant of the caller. */
  tenant: string;
  files: FleetFiles;
  /** Nothing is sent, so secrets need not be known. */
  isDiff: boolean;
  /** Takes the task of a person after a change. */
  remark(text: string): void;
  /** Notes by id, of this declaration. */
  owned: Readonly<Record<string, string>>;
}

/** Every kind, in the order in which resources are made: what keys are bound to comes before them. */
export function readKinds(target: Target): Promise<Kind[]> {
  return Promise.all([sources(target), toolsets(target), webhooks(target), budgets(target), keys(target)]);
}

/** Id of a source or toolset as the fleet lists it: with its tenant at the end, unless it is shared. */
const idIn = ({ files, tenant }: Target, kind: string, name: string): string =>
  files.visibility === 'fleet' ? `${kind}/${name}` : `${kind}/${name}@${tenant}`;
const ownerQuery = (owner: string | null) => (owner === null ? { visibility: 'fleet' as const } : {});

async function sources(target: Target): Promise<Kind> {
  const { files, gateway } = target;
  const listed = await listFor(target, ['mcp/', 'openapi/'], files.sources.length, () =>
    gateway.request('GET /api/v1/sources'),
  );
  const current = listed.filter(({ tenant }) => tenant === null || tenant === target.tenant).map(toSource(gateway));
  const wanted = files.sources.map((source): Wanted => {
    const { kind, name } = source;
    const path = `${kind === 'openapi' ? 'openapi_tools' : source.fields['func_name'] ? 'mcp_tools' : 'mcp_servers'}.${name}`;
    const file = files.files.get(path.replace('mcp_tools', 'mcp_servers')) ?? '';
    const expanded = expandSource(source.fields, { file, path }, target.env, files.visibility === 'tenant');
    const { fields, value, secrets, unset, isKept } = expanded;
    const isUnknown = isKept || unset.length > 0;
    return {
      id: idIn(target, kind, name),
      path,
      value,
      hiddenChange: async (note) =>
        isUnknown || (note ? isSameSecret(secrets, note) : secrets.length === 0) ? undefined : 'secrets: changed',
      obstacle: (_, changes) => {
        if (unset.length > 0 && !target.isDiff)
          return `set ${unset.join(', ')} in the environment; it holds a secret of this source`;
        return isKept && changes
          ? 'has a secret that only the fleet has; to change it, write ${VARIABLE} in its place'
          : undefined;
      },
      put: async (before) => {
        if (isKept) return target.owned[before?.id ?? ''] ?? '';
        const body = { ...fields, name, visibility: files.visibility };
        const { quarantined = [], refused = [] }: Registered = await gateway.request(`POST /api/v1/sources/${kind}`, {
          body,
        });
        for (const one of quarantined)
          target.remark(`${one.name} awaits an approval: fleetctl approvals show ${one.name}`);
        for (const one of refused) target.remark(`${path}: ${one.name} was refused: ${one.message}`);
        return secretDigest(secrets);
      },
    };
  });
  return { wanted, current: byId(current) };
}

const toSource =
  (gateway: Gateway) =>
  ({ id, kind, tenant, origin }: SourceStatus): Current => {
    const sent = { path: { kind, name: id.slice(kind.length + 1) }, query: ownerQuery(tenant) };
    return {
      id,
      ...(origin === 'api' ? {} : { isConfigured: true }),
      read: async () => (await gateway.request('GET /api/v1/sources/{kind}/{name}', sent)).registration ?? {},
      remove: () => gateway.request('DELETE /api/v1/sources/{kind}/{name}', sent),
    };
  };

async function toolsets(target: Target): Promise<Kind> {
  const { files, gateway } = target;
  const entries = Object.entries(files.toolsets);
  const listed = await listFor(target, ['toolsets/'], entries.length, () => gateway.request('GET /api/v1/toolsets'));
  const current = listed.filter(({ tenant }) => tenant === null || tenant === target.tenant).map(toToolset(gateway));
  const query = { visibility: files.visibility };
  const wanted = entries.map(([name, spec]): Wanted => ({
    id: idIn(target, 'toolsets', name),
    path: `toolsets.${name}`,
    value: spec as JsonObject,
    put: async () => {
      await gateway.request('PUT /api/v1/toolsets/{name}', { path: { name }, query, body: spec });
      return '';
    },
  }));
  return { wanted, current: byId(current) };
}

const toToolset =
  (gateway: Gateway) =>
  ({ id, tenant, origin }: ToolsetSummary): Current => {
    const sent = { path: { name: id }, query: ownerQuery(tenant) };
    return {
      id: `toolsets/${id}`,
      ...(origin === 'api' ? {} : { isConfigured: true }),
      read: async () => (await gateway.request('GET /api/v1/toolsets/{name}', sent)).spec as JsonObject,
      remove: () => gateway.request('DELETE /api/v1/toolsets/{name}', sent),
    };
  };

/**
 * Endpoints have no names at the fleet: the note of a declared one is its id. An endpoint of the same URL is taken over. A URL with a variable
 * is a secret.
 */
async function webhooks(target: Target): Promise<Kind> {
  const { files, gateway, owned, env, isDiff } = target;
  const entries = Object.entries(files.webhooks);
  const listed = await listFor(target, ['webhooks/'], entries.length, () => gateway.request('GET /api/v1/webhooks'));
  const free = new Map(listed.map((webhook) => [webhook.id, webhook]));
  const found = new Map<string, Webhook>();
  const take = (id: string, webhook: Webhook | undefined) => {
    if (!webhook) return;
    found.set(id, webhook);
    free.delete(webhook.id);
  };
  for (const [id, note] of Object.entries(owned)) if (id.startsWith('webhooks/')) take(id, free.get(note));
  const hidden = new Set<string>();
  const wanted = entries.map(([name, body]): Wanted => {
    const id = `webhooks/${name}`;
    const { text: url, isSecret, unset } = expandSecret(body.url, env);
    if (isSecret) hidden.add(id);
    if (!found.has(id))
      take(
        id,
        [...free.values()].find((one) => one.url === url),
      );
    const same = found.get(id);
    const { kinds, tools = [], toolsets: names = [], description = '' } = body;
    const sent = { url, kinds, tools, toolsets: names, description };
    return {
      id,
      path: `webhooks.${name}`,
      value: toFilters(sent, isSecret),
      hiddenChange: async () => (isSecret && unset.length === 0 && same?.url !== url ? 'url: changed' : undefined),
      obstacle: () => (unset.length > 0 && !isDiff ? `set ${unset.join(', ')} in the environment` : undefined),
      put: async () => {
        if (!same) return (await gateway.request('POST /api/v1/webhooks', { body: sent })).webhook.id;
        return (await gateway.request('PUT /api/v1/webhooks/{id}', { path: { id: same.id }, body: sent })).id;
      },
    };
  });
  const current = [...found].map(([id, webhook]): Current => ({
    id,
    read: async () => toFilters(webhook, hidden.has(id)),
    note: webhook.id,
    remove: () => gateway.request('DELETE /api/v1/webhooks/{id}', { path: { id: webhook.id } }),
  }));
  return { wanted, current: byId(current) };
}

/** Members of an endpoint; without its URL where that is a secret. */
export const toFilters = (
  { url, description, kinds, tools = [], toolsets: names = [] }: NewWebhook,
  isSecret: boolean,
): JsonObject => ({
  ...(!isSecret && { url }),
  ...(description && { description }),
  kinds: kinds.toSorted(),
  ...(tools.length > 0 && { tools }),
  ...(names.length > 0 && { toolsets: names }),
});

async function budgets(target: Target): Promise<Kind> {
  const { files, gateway, tenant, owned } = target;
  const ids = files.budgets.map((budget) => budgetId(tenant, budget));
  const all = [...ids, ...Object.keys(owned).filter((id) => id.startsWith('budgets/'))];
  const tenants = new Set(all.map((id) => decodeURIComponent(id.split('/')[1]!)));
  const current: Current[] = [];
  for (const tenant_id of tenants) {
    const { budgets: listed } = await gateway.request('GET /api/v1/budgets', { query: { tenant_id } });
    current.push(...listed.filter(({ subject }) => subject !== undefined).map(toBudget(gateway, tenant_id)));
  }
  const wanted = files.budgets.map((budget, index): Wanted => {
    const { limit_usd, limit_tokens } = budget;
    return {
      id: ids[index]!,
      path: `budgets of ${[budget.subject, budget.id ?? budget.tenant_id, budget.period].filter(Boolean).join(' ')}`,
      value: toLimits({ limit_usd, limit_tokens }),
      put: async () => {
        await gateway.request('PUT /api/v1/budgets', { body: budget });
        return '';
      },
    };
  });
  return { wanted, current: byId(current) };
}

const toBudget =
  (gateway: Gateway, tenant_id: string) =>
  (budget: Budget): Current => {
    const query = { subject: budget.subject!, id: budget.subject_id, period: budget.period, tenant_id };
    return {
      id: budgetId(tenant_id, query),
      read: async () => toLimits(budget),
      remove: () => gateway.request('DELETE /api/v1/budgets', { query }),
    };
  };

const budgetId = (
  tenant: string,
  {
    subject,
    id = '',
    period = 'month',
    tenant_id = tenant,
  }: Pick<DeclaredBudget, 'subject' | 'id' | 'period' | 'tenant_id'>,
): string => ['budgets', tenant_id, subject, id, period].map((part) => encodeURIComponent(part)).join('/');

export const toLimits = ({ limit_usd, limit_tokens }: { limit_usd?: number | null; limit_tokens?: number | null }) => ({
  ...(limit_usd == null ? {} : { limit_usd }),
  ...(limit_tokens == null ? {} : { limit_tokens }),
});

/** The rights of the valid keys of a client. Keys themselves are made and revoked by people, who see the secret. */
async function keys(target: Target): Promise<Kind> {
  const { files, gateway, tenant } = target;
  const entries = Object.entries(files.keys);
  const listed = await listFor(target, ['keys/'], entries.length, () => gateway.request('GET /api/v1/keys'));
  const mine = listed.filter((key) => key.tenant_id === tenant && isValid(key) && !isPersonal(key));
  const valid = new Map(mine.map(({ client }) => [client, mine.filter((key) => key.client === client)]));
  const wanted = entries.map(([client, rights]): Wanted => {
    const value = toRights(rights);
    return {
      id: `keys/${client}`,
      path: `keys.${client}`,
      value,
      obstacle: (current) =>
        current
          ? undefined
          : `${client} has no valid key; make one: fleetctl keys create ${client} --service ${client}`,
      put: async () => {
        for (const { id } of valid.get(client) ?? [])
          await gateway.request('PUT /api/v1/keys/{id}', { path: { id }, body: rights });
        return '';
      },
    };
  });
  const current = [...valid].map(([client, ofClient]): Current => {
    const declared = files.keys[client];
    // Only operators set tiers, and people write notes, so both count where files name one.
    const tierOf = ({ tier }: ApiKey) => (declared?.tier === undefined ? null : tier);
    const noteOf = ({ note }: ApiKey) => (declared?.note === undefined ? null : note);
    const rights = ofClient.map((key) => toRights({ ...key, tier: tierOf(key), note: noteOf(key) }));
    const text = declared && JSON.stringify(toRights(declared));
    // Of two keys, the one that differs from the files.
    return { id: `keys/${client}`, read: async () => rights.find((one) => JSON.stringify(one) !== text) ?? rights[0]! };
  });
  return { wanted, current: byId(current) };
}

export const isValid = ({ revoked_at: revoked, expires_at: end }: ApiKey): boolean =>
  revoked === null && (end === null || Date.parse(end) > Date.now());

/** A key that its user made for itself, under a client of any name. Files give rights to keys of services and of operators. */
export const isPersonal = ({ person, user_id: user }: ApiKey): boolean =>
  person?.kind === 'creator' && person.user_id === user;

const RIGHTS = Object.keys(ROUTES['PUT /api/v1/keys/{id}'].body.properties as object) as (keyof KeyRights)[];

/** The members of a key that its route changes, with the defaults of a new key; those that are not set are left out. */
export function toRights(key: KeyRights | ApiKey): JsonObject {
  const { roles = [], tools = ['*'], projects } = key;
  const rights = { ...key, roles, tools, projects: projects?.length ? projects : null };
  return Object.fromEntries(RIGHTS.flatMap((name) => (rights[name] ? [[name, rights[name]]] : [])));
}

/** Resources of the fleet, unless neither the files nor the declaration have any of it: the caller may not have the right to list it. */
async function listFor<T>(
  { owned }: Target,
  prefixes: readonly string[],
  declared: number,
  list: () => Promise<T[]>,
): Promise<T[]> {
  const isOwned = Object.keys(owned).some((id) => prefixes.some((prefix) => id.startsWith(prefix)));
  return declared > 0 || isOwned ? list() : [];
}

const byId = (all: readonly Current[]): Map<string, Current> => new Map(all.map((one) => [one.id, one]));
