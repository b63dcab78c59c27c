import type { CallRequest, CallResult, Milliseconds } from '@toolfleet/contracts';
import { actingUserId, callBody, ResultShelf, type KeptHandle } from '@toolfleet/engine';
import type { KeptResults } from '@toolfleet/journal';
import type { Clock } from '@toolfleet/resilience';
import type { RedisCallStore } from './redis-call-store.js';
import { toMaker } from '@toolfleet/access';

/**
 * Keeps large results as records of ended calls, next to asynchronous calls: the quota of their tenant, the result store,
 * access rules, downloads and purges apply to them as well. The handle is the call id.
 */
export class CallResultShelf extends ResultShelf {
  constructor(
    private readonly store: Pick<RedisCallStore, 'create' | 'finish'>,
    private readonly results: Pick<KeptResults, 'admit'>,
    private readonly clock: Clock,
    /** Lifetime of a record in the store. */
    private readonly ttlMs: Milliseconds,
  ) {
    super();
  }

  override async keep(request: CallRequest, tool: string, result: CallResult): Promise<KeptHandle | undefined> {
    const { callId, principal, context } = request;
    try {
      await this.results.admit(principal.tenantId);
      await this.store.create({
        callId,
        tenantId: principal.tenantId,
        tool,
        maker: toMaker(principal),
        userId: actingUserId(request),
        session: typeof context.session_id === 'string' ? context.session_id : undefined,
        state: 'claimed',
        acceptedAt: this.clock.now(),
      });
      await this.store.finish(callId, 'succeeded', callBody(callId, result, 0));
      return { handle: callId, expiresAt: this.clock.now() + this.ttlMs };
    } catch {
      // The call has succeeded; its caller gets the whole result.
      return undefined;
    }
  }
}
