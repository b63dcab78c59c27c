import { PURGE_TURN_MS, type PurgeMessage } from '@toolfleet/contracts/purge';
import type { Requested } from '@toolfleet/contracts/requests';
import type { NatsClient } from '@toolfleet/transport';
import { type ApiKeys, type PeopleRoles, toMaker } from '@toolfleet/access';
import type { SearchHistory } from '@toolfleet/catalog';
import type { PurgeStep } from '@toolfleet/records';
import type { StoredResults } from '@toolfleet/results';
import type { RedisDeclarations } from './redis-declarations.js';

interface StepDeps {
  keys: Pick<ApiKeys, 'erase' | 'list'>;
  people: Pick<PeopleRoles, 'erase'> | undefined;
  /** The step of `scannedKeys`. */
  calls: PurgeStep;
  /** Whether calls are recorded, so that the service `records` runs. */
  recordsCalls: boolean;
  /** Whether the service `identity` runs. */
  hasIdentity: boolean;
  declarations: Pick<RedisDeclarations, 'erase'>;
  searches: Pick<SearchHistory, 'erase'> | undefined;
  results: { erase(tenantId: string, dryRun: boolean): Promise<number> };
  largeResults: Pick<StoredResults, 'eraseTenant'> | undefined;
  nats: Pick<NatsClient, 'ask'>;
}

/** The stores in the order in which they are purged: keys and sessions first, so that callers stop; ledger and records last, because calls end in them. */
export function purgeSteps(deps: StepDeps): PurgeStep[] {
  const { keys, people, declarations, searches, results, largeResults, nats } = deps;
  return [
    {
      name: 'keys',
      async run({ tenantId, userId, keyIds, dryRun, count }) {
        if (!dryRun) await people?.erase(tenantId, userId);
        if (!dryRun) return count('keys', await keys.erase(keyIds));
        const found = await keys.list(tenantId);
        await count('keys', found.filter((key) => userId === undefined || key.userId === userId).length);
      },
    },
    // With the keys, so that users who are signed in stop as well.
    ...(deps.hasIdentity ? [servicePurge('identity', 'identity.purge', nats)] : []),
    servicePurge('definitions', 'registry.purge', nats),
    {
      name: 'declarations',
      async run({ tenantId, userId, dryRun, count }) {
        if (userId === undefined) await count('declarations', await declarations.erase(tenantId, dryRun));
      },
    },
    deps.calls,
    {
      name: 'tool_searches',
      async run({ tenantId, userId, keyIds, dryRun, count }) {
        const callers =
          userId === undefined
            ? undefined
            : [toMaker({ userId }), ...keyIds.map((keyId) => toMaker({ userId, keyId }))];
        if (searches) await count('tool_searches', await searches.erase(tenantId, callers, dryRun));
      },
    },
    {
      // A user's go with the records that refer to them.
      name: 'stored_results',
      async run({ tenantId, userId, dryRun, count }) {
        if (userId !== undefined) return;
        if (largeResults) await count('stored_results', await largeResults.eraseTenant(tenantId, dryRun));
        await count('result_accounts', await results.erase(tenantId, dryRun));
      },
    },
    servicePurge('workspaces', 'workspace.purge', nats),
    servicePurge('ledger', 'budget.purge', nats),
    ...(deps.recordsCalls ? [servicePurge('records', 'records.purge', nats)] : []),
  ];
}

/** Time for the reply of a service beyond the turn it takes. */
const REPLY_MS = 20_000;

/** Subjects on which services remove the data of a tenant or user. */
type PurgeSubject = Extract<Requested, `${string}.purge`>;

/** A step that another service does, turn by turn. */
function servicePurge(name: string, subject: PurgeSubject, nats: Pick<NatsClient, 'ask'>): PurgeStep {
  return {
    name,
    async run({ tenantId, userId, keyIds, dryRun, pseudonym, count }) {
      const message: PurgeMessage = {
        tenant_id: tenantId,
        user_id: userId,
        key_ids: [...keyIds],
        dry_run: dryRun,
        pseudonym,
      };
      for (let more = true; more;) {
        const reply = await nats.ask(subject, message, { timeoutMs: PURGE_TURN_MS + REPLY_MS });
        for (const [kind, amount] of Object.entries(reply.counts)) await count(kind, amount);
        ({ more, next: message.after } = reply);
      }
    },
  };
}
