import { Controller } from '@nestjs/common';
import type { Milliseconds } from '@toolfleet/contracts';
import { PURGE_TURN_MS, type PurgeMessage } from '@toolfleet/contracts/purge';
import type { RecordsAppend, RecordsBody, RecordsFacts, RecordsList } from '@toolfleet/contracts/records';
import { Clock, withTimeout } from '@toolfleet/resilience';
import { ServiceFaults } from '@toolfleet/service';
import { Endpoint } from '@toolfleet/transport';
import { RecordedCallStore, STORE_UNAVAILABLE } from './call-store.js';

/** Injection token of the longest wait for a list of calls. */
export class RecordsTimeout {
  constructor(readonly ms: Milliseconds) {}
}

/** `records.*`: batches of finished calls from gateways, and what people ask about them. */
@Controller()
export class RecordsEndpoint {
  constructor(
    private readonly store: RecordedCallStore,
    private readonly clock: Clock,
    private readonly timeout: RecordsTimeout,
    private readonly faults: ServiceFaults,
  ) {}

  @Endpoint('records.append', { unavailable: STORE_UNAVAILABLE })
  async append({ batch_id, calls }: RecordsAppend) {
    if (!this.store.bodies.isOn && calls.some((call) => call.body))
      this.faults.set('secret RECORDS_SECRET_KEY', [
        'is not set: arguments and results of calls, which gateways send by call_bodies, are not kept',
      ]);
    return { stored: await this.store.append(batch_id, calls, this.clock.now()) };
  }

  @Endpoint('records.list', { unavailable: STORE_UNAVAILABLE })
  list(query: RecordsList) {
    // A long search answers with the matches of half of the time.
    const isOver = this.#after(this.timeout.ms / 2);
    return withTimeout(this.clock, this.timeout.ms, this.store.list(query, isOver));
  }

  @Endpoint('records.body', { unavailable: STORE_UNAVAILABLE })
  body(question: RecordsBody) {
    const reading = this.store.bodies.read(question, this.clock.now());
    return withTimeout(this.clock, this.timeout.ms, reading);
  }

  @Endpoint('records.facts', { unavailable: STORE_UNAVAILABLE })
  facts(query: RecordsFacts) {
    const isOver = this.#after(this.timeout.ms / 2);
    return withTimeout(this.clock, this.timeout.ms, this.store.facts(query, isOver));
  }

  @Endpoint('records.purge', { unavailable: STORE_UNAVAILABLE })
  async purge({ tenant_id, user_id, key_ids, dry_run, after }: PurgeMessage) {
    const scope = { tenantId: tenant_id, userId: user_id, keyIds: key_ids };
    const turn = { after, dryRun: dry_run, isOver: this.#after(PURGE_TURN_MS) };
    // First of all, so that nothing is sent any more.
    const isFirst = after === undefined;
    const told = isFirst ? await this.store.deliveries.erase(scope, dry_run) : {};
    const approvals = isFirst ? await this.store.approvals.eraseOwner(scope, dry_run) : 0;
    const grants = isFirst ? await this.store.grants.eraseOwner(scope, dry_run) : 0;
    const { rows, keys, next } = await this.store.erase(scope, turn);
    const counts = { call_records: rows, body_keys: keys, approvals, approval_grants: grants, ...told };
    return { counts, more: next !== undefined, next };
  }

  #after(ms: Milliseconds): () => boolean {
    const until = this.clock.monotonic() + ms;
    return () => this.clock.monotonic() > until;
  }
}
