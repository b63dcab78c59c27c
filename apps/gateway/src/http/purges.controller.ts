import { Controller } from '@nestjs/common';
import { instantOrNull, toInstant, type Principal } from '@toolfleet/contracts';
import type { RouteInput } from '@toolfleet/contracts/resources';
import { Caller } from '../server/guards.js';
import { orUnavailable } from '@toolfleet/queue/redis';
import { Purges, type PurgeRecord } from '@toolfleet/records';
import { Input, Serves } from '../server/routes.js';

const STORE = 'The store of purges';

/** Removes all data of a tenant (operators) or of one of its users (its administrators). */
@Controller()
export class PurgesController {
  constructor(private readonly purges: Purges) {}

  @Serves('POST /api/v1/purges')
  async request(@Caller() caller: Principal, @Input() { body }: RouteInput<'POST /api/v1/purges'>) {
    const { tenant_id: tenantId, user_id: userId, dry_run: dryRun = false, confirm } = body;
    return toBody(await orUnavailable(STORE, this.purges.request(caller, { tenantId, userId, dryRun, confirm })));
  }

  @Serves('GET /api/v1/purges/{id}')
  async get(@Caller() caller: Principal, @Input() { path }: RouteInput<'GET /api/v1/purges/{id}'>) {
    return toBody(await orUnavailable(STORE, this.purges.get(caller, path.id)));
  }
}

function toBody(purge: PurgeRecord) {
  return {
    id: purge.id,
    tenant_id: purge.tenantId,
    user_id: purge.userId ?? null,
    dry_run: purge.dryRun,
    state: purge.state,
    pseudonym: purge.pseudonym,
    requested_by: purge.requestedBy,
    requested_at: toInstant(purge.requestedAt),
    finished_at: instantOrNull(purge.finishedAt),
    steps_done: purge.done,
    counts: purge.counts,
    remaining: purge.remaining,
    error: purge.error ?? null,
  };
}
