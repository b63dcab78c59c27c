import type { Principal } from '@toolfleet/contracts';
import type { BreakerStatus } from '@toolfleet/contracts/fleet';
import type { JobQueue } from '@toolfleet/queue';
import { isOperator } from '../auth/roles.js';
import type { ToolList } from '../catalog/tool-list.js';
import { reached } from '../engine/reached.js';
import type { FleetWatch } from './fleet-watch.js';

const GATEWAY = 'gateway';

/** A breaker that is not closed, and how many processes see it so. */
export interface TroubledBreaker extends BreakerStatus {
  /** `tool` at gateways, `target` (base URL or server) at executors. */
  protects: 'tool' | 'target';
  service: string;
  instances: number;
}

/** The state of queues, executors and breakers as operators see it. */
export class FleetView {
  constructor(
    private readonly watch: FleetWatch,
    private readonly queues: readonly Pick<JobQueue, 'name' | 'counts' | 'oldestAgeMs' | 'workers'>[],
    private readonly list: ToolList,
  ) {}

  /** Every queue: jobs by state, the longest wait, its workers with their slots. */
  queuesNow() {
    return reached(
      'The queues',
      Promise.all(
        this.queues.map(async (queue) => {
          const [jobs, ageMs, workers] = await Promise.all([queue.counts(), queue.oldestAgeMs(), queue.workers()]);
          return { queue: queue.name, jobs, oldest_age_ms: ageMs, slots: sumOf(workers), workers };
        }),
      ),
    );
  }

  /** Every process that answers requests, with its slots. */
  executorsNow() {
    return this.watch
      .processes()
      .filter(({ slots }) => slots !== undefined)
      .map(({ service, instance, slots, age_ms }) => ({ service, instance, slots, age_ms }));
  }

  /** Breakers that are not closed: of tools the caller may see, as its tenant sees them; for operators all. */
  async breakersNow(caller: Principal): Promise<TroubledBreaker[]> {
    const all = isOperator(caller);
    const mine = all ? undefined : new Set((await this.list.all(caller)).tools.map((tool) => tool.name));
    const found = new Map<string, TroubledBreaker>();
    for (const { service, breakers } of this.watch.processes()) {
      const protects = service === GATEWAY ? 'tool' : 'target';
      for (const breaker of breakers) {
        if (!all && (protects === 'target' || !mine?.has(breaker.key))) continue;
        const { tenant_id: tenant } = breaker;
        if (!all && tenant !== undefined && tenant !== caller.tenantId) continue;
        const id = JSON.stringify([service, breaker.key, tenant ?? null]);
        const known = found.get(id);
        // Processes disagree for moments: the worst state is shown.
        const worse = !known || (breaker.state === 'open' && breaker.open_for_ms > known.open_for_ms);
        found.set(id, {
          ...(worse ? breaker : known),
          protects,
          service,
          instances: (known?.instances ?? 0) + 1,
        });
      }
    }
    return [...found.values()];
  }
}

function sumOf(workers: readonly { busy: number; total: number }[]): { busy: number; total: number } {
  return {
    busy: workers.reduce((sum, { busy }) => sum + busy, 0),
    total: workers.reduce((sum, { total }) => sum + total, 0),
  };
}
