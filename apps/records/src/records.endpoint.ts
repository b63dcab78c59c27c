import type { Milliseconds } from '@toolfleet/contracts';
import { PURGE_TURN_MS } from '@toolfleet/contracts/purge';
import { withTimeout } from '@toolfleet/resilience';
import type { ServiceHost } from '@toolfleet/service';
import { endpointsOf } from '@toolfleet/service/nats';
import { STORE_UNAVAILABLE, type RecordedCallStore } from './call-store.js';

/**
 * `records.*`: batches of finished calls from gateways, and what people ask about them.
 * @param timeoutMs longest wait for a list of calls
 */
export function recordsEndpoints(store: RecordedCallStore, timeoutMs: Milliseconds, { clock, faults }: ServiceHost) {
  const { bodies, deliveries, approvals, grants } = store;
  const after = (ms: Milliseconds): (() => boolean) => {
    const until = clock.monotonic() + ms;
    return () => clock.monotonic() > until;
  };
  return endpointsOf(
    {
      'records.append': async ({ batch_id, calls }) => {
        if (!bodies.isOn && calls.some((call) => call.body))
          faults.set('secret RECORDS_SECRET_KEY', [
            'is not set: arguments and results of calls, which gateways send by call_bodies, are not kept',
          ]);
        return { stored: await store.append(batch_id, calls, clock.now()) };
      },
      // A long search answers with the matches of half of the time.
      'records.list': (query) => withTimeout(clock, timeoutMs, store.list(query, after(timeoutMs / 2))),
      'records.facts': (query) => withTimeout(clock, timeoutMs, store.facts(query, after(timeoutMs / 2))),
      'records.body': (question) => withTimeout(clock, timeoutMs, bodies.read(question, clock.now())),
      'records.purge': async ({ tenant_id, user_id, key_ids, dry_run, after: last }) => {
        const scope = { tenantId: tenant_id, userId: user_id, keyIds: key_ids };
        const turn = { after: last, dryRun: dry_run, isOver: after(PURGE_TURN_MS) };
        // First of all, so that nothing is sent any more.
        const isFirst = last === undefined;
        const told = isFirst ? await deliveries.erase(scope, dry_run) : {};
        const erased = isFirst ? await approvals.eraseOwner(scope, dry_run) : 0;
        const approval_grants = isFirst ? await grants.eraseOwner(scope, dry_run) : 0;
        const { rows, keys, next } = await store.erase(scope, turn);
        const counts = { call_records: rows, body_keys: keys, approvals: erased, approval_grants, ...told };
        return { counts, more: next !== undefined, next };
      },
    },
    { unavailable: STORE_UNAVAILABLE },
  );
}
