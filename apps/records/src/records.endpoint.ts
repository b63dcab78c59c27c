import { Controller } from '@nestjs/common';
import type { Milliseconds } from '@toolfleet/contracts';
import { PURGE, PURGE_TURN_MS, type PurgeMessage, type PurgeReply } from '@toolfleet/contracts/purge';
import {
  RECORDS_APPEND,
  RECORDS_BODY,
  RECORDS_FACTS,
  RECORDS_LIST,
  type RecordsAppend,
  type RecordsAppendReply,
  type RecordsBody,
  type RecordsBodyReply,
  type RecordsFacts,
  type RecordsFactsReply,
  type RecordsList,
  type RecordsListReply,
} from '@toolfleet/contracts/records';
import { SUBJECTS } from '@toolfleet/contracts/subjects';
import { Clock, withTimeout } from '@toolfleet/resilience';
import { ServiceFaults } from '@toolfleet/service';
import { Endpoint } from '@toolfleet/transport';
import { RecordedCallStore } from './call-store.js';
import { orUnavailable } from './store-unavailable.js';

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

  @Endpoint(SUBJECTS.recordsAppend, { schema: RECORDS_APPEND })
  async append({ batch_id, calls }: RecordsAppend): Promise<RecordsAppendReply> {
    if (!this.store.bodies.isOn && calls.some((call) => call.body))
      this.faults.set('secret RECORDS_SECRET_KEY', [
        'is not set: arguments and results of calls, which gateways send by call_bodies, are not kept',
      ]);
    return { stored: await orUnavailable(this.store.append(batch_id, calls, this.clock.now())) };
  }

  @Endpoint(SUBJECTS.recordsList, { schema: RECORDS_LIST })
  list(query: RecordsList): Promise<RecordsListReply> {
    // A long search answers with the matches of half of the time.
    const isOver = this.#after(this.timeout.ms / 2);
    return orUnavailable(withTimeout(this.clock, this.timeout.ms, undefined, () => this.store.list(query, isOver)));
  }

  @Endpoint(SUBJECTS.recordsBody, { schema: RECORDS_BODY })
  body(question: RecordsBody): Promise<RecordsBodyReply> {
    const read = () => this.store.bodies.read(question, this.clock.now());
    return orUnavailable(withTimeout(this.clock, this.timeout.ms, undefined, read));
  }

  @Endpoint(SUBJECTS.recordsFacts, { schema: RECORDS_FACTS })
  facts(query: RecordsFacts): Promise<RecordsFactsReply> {
    const isOver = this.#after(this.timeout.ms / 2);
    return orUnavailable(withTimeout(this.clock, this.timeout.ms, undefined, () => this.store.facts(query, isOver)));
  }

  @Endpoint(SUBJECTS.recordsPurge, { schema: PURGE })
  async purge({ tenant_id, user_id, key_ids, dry_run, after }: PurgeMessage): Promise<PurgeReply> {
    const scope = { tenantId: tenant_id, userId: user_id, keyIds: key_ids };
    const turn = { after, dryRun: dry_run, isOver: this.#after(PURGE_TURN_MS) };
    // First of all, so that nothing is sent any more.
    const isFirst = after === undefined;
    const told = isFirst ? await orUnavailable(this.store.deliveries.erase(scope, dry_run)) : {};
    const approvals = isFirst ? await orUnavailable(this.store.approvals.eraseOwner(scope, dry_run)) : 0;
    const grants = isFirst ? await orUnavailable(this.store.grants.eraseOwner(scope, dry_run)) : 0;
    const { rows, keys, next } = await orUnavailable(this.store.erase(scope, turn));
    const counts = { call_records: rows, body_keys: keys, approvals, approval_grants: grants, ...told };
    return { counts, more: next !== undefined, next };
  }

  #after(ms: Milliseconds): () => boolean {
    const until = this.clock.monotonic() + ms;
    return () => this.clock.monotonic() > until;
  }
}
