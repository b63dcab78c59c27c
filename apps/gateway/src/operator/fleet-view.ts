import type { Json, Principal } from '@toolfleet/contracts';
import type { FleetStatus } from '@toolfleet/contracts/fleet';
import { number, record, text } from '@toolfleet/contracts/json-schema';
import type { FleetBreaker, ReportedFault, ToolLimit } from '@toolfleet/contracts/resources';
import { SUBJECTS } from '@toolfleet/contracts/subjects';
import type { Clock } from '@toolfleet/resilience';
import { compileSchema } from '@toolfleet/bounded-schema';
import type { NatsClient } from '@toolfleet/transport';
import type { JobQueue } from '@toolfleet/queue';
import { rateKey, toolRate, type RateLimiter } from '@toolfleet/engine';
import { hasRight } from '@toolfleet/access';
import type { ToolList } from '@toolfleet/catalog';
import { orUnavailable } from '@toolfleet/queue/redis';

const GATEWAY = 'gateway';

/** Most processes remembered; fleets are far smaller. */
const MOST = 2_000;
const LONGEST_TTL_MS = 60_000;

/** A process with a recent heartbeat. */
interface SeenProcess extends FleetStatus {
  /** Milliseconds since its last heartbeat. */
  age_ms: number;
}

/** Remembers the heartbeats of gateways and executors (`fleet.status`) until their TTL has passed. */
export class FleetWatch {
  /** By `toId`. `since` is the start of their heartbeats without a gap. */
  readonly #seen = new Map<string, { status: FleetStatus; at: number; since: number }>();

  /** @param own id of this gateway */
  constructor(
    private readonly nats: Pick<NatsClient, 'subscribe'>,
    private readonly clock: Clock,
    private readonly own: string,
  ) {}

  /** Subscribes to heartbeats; the connection must be open. */
  follow(): void {
    this.nats.subscribe(SUBJECTS.fleetStatus, ({ body }) => {
      if (STATUS.check(body as Json)) this.note(body as FleetStatus);
    });
  }

  /** Records one heartbeat. */
  note(status: FleetStatus): void {
    const id = toId(status);
    const at = this.clock.monotonic();
    this.#forgetGone();
    const known = this.#seen.get(id);
    if (known || this.#seen.size < MOST) this.#seen.set(id, { status, at, since: known?.since ?? at });
  }

  /**
   * Whether a gateway is known to be gone: this one has heard its own heartbeats for so long that it would have heard the other's.
   * One that has just started, was suspended or has no NATS knows nothing.
   */
  isGone(instance: string): boolean {
    this.#forgetGone();
    const own = this.#seen.get(toId({ service: GATEWAY, instance: this.own }));
    const isSure = own !== undefined && this.clock.monotonic() - own.since > own.status.ttl_ms;
    return isSure && !this.#seen.has(toId({ service: GATEWAY, instance }));
  }

  /** Live processes, ordered by service. */
  processes(): SeenProcess[] {
    this.#forgetGone();
    const now = this.clock.monotonic();
    return [...this.#seen.values()]
      .map(({ status, at }) => ({ ...status, age_ms: Math.round(now - at) }))
      .toSorted((a, b) => (a.service < b.service ? -1 : a.service > b.service ? 1 : 0));
  }

  /** Number of live processes of a service. */
  count(service: string): number {
    this.#forgetGone();
    return [...this.#seen.values()].filter(({ status }) => status.service === service).length;
  }

  #forgetGone(): void {
    const now = this.clock.monotonic();
    for (const [id, { status, at }] of this.#seen) {
      if (now - at > Math.min(status.ttl_ms, LONGEST_TTL_MS)) this.#seen.delete(id);
    }
  }
}

const toId = ({ service, instance }: Pick<FleetStatus, 'service' | 'instance'>): string => `${service}/${instance}`;

/** The required parts; releases add members to the parts. */
const STATUS = compileSchema(
  record({ service: text(), instance: text(), ttl_ms: number(), breakers: { type: 'array' } }),
);

/** The state of queues, executors and breakers as operators see it. */
export class FleetView {
  constructor(
    private readonly watch: FleetWatch,
    private readonly queues: readonly Pick<JobQueue, 'name' | 'counts' | 'oldestAgeMs' | 'workers'>[],
    private readonly list: ToolList,
  ) {}

  /** All queues with their jobs by state, age of the oldest waiting job, and workers with their slots. */
  queuesNow() {
    return orUnavailable(
      'The queues',
      Promise.all(
        this.queues.map(async (queue) => {
          const [jobs, ageMs, workers] = await Promise.all([queue.counts(), queue.oldestAgeMs(), queue.workers()]);
          return { queue: queue.name, jobs, oldest_age_ms: ageMs, slots: sumSlots(workers), workers };
        }),
      ),
    );
  }

  /** All processes with slots for requests. */
  executorsNow() {
    return this.watch
      .processes()
      .flatMap(({ service, instance, slots, age_ms }) => (slots ? [{ service, instance, slots, age_ms }] : []));
  }

  /** Faults in configuration and policies of running services, once for all processes of a service. */
  faultsNow(): ReportedFault[] {
    const found = new Map<string, ReportedFault>();
    for (const { service, faults } of this.watch.processes()) {
      for (const { subject, message, since } of faults) {
        const id = JSON.stringify([service, subject, message]);
        const known = found.get(id);
        const first = known && known.since < since ? known.since : since;
        found.set(id, { service, subject, message, since: first, instances: (known?.instances ?? 0) + 1 });
      }
    }
    return [...found.values()];
  }

  /** Breakers that are not closed: of the tools the caller may see, for its tenant; for operators all. */
  async breakersNow(caller: Principal): Promise<FleetBreaker[]> {
    const all = hasRight(caller, 'operate_fleet');
    const mine = all ? undefined : new Set((await this.list.originals(caller)).map((tool) => tool.name));
    const found = new Map<string, FleetBreaker>();
    for (const { service, breakers } of this.watch.processes()) {
      const protects = service === GATEWAY ? 'tool' : 'target';
      for (const breaker of breakers) {
        if (!all && (protects === 'target' || !mine?.has(breaker.key))) continue;
        const { tenant_id: tenant } = breaker;
        if (!all && tenant !== undefined && tenant !== caller.tenantId) continue;
        const id = JSON.stringify([service, breaker.key, tenant ?? null]);
        const known = found.get(id);
        // Processes may disagree for moments; the worst state is shown.
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

function sumSlots(workers: readonly { busy: number; total: number }[]): { busy: number; total: number } {
  return {
    busy: workers.reduce((sum, { busy }) => sum + busy, 0),
    total: workers.reduce((sum, { total }) => sum + total, 0),
  };
}

/** Most buckets read for one answer; further tools are listed without the remaining tokens. */
const MOST_LOOKED_AT = 200;

/** Rate limits of the tools a caller may use, with the rest for its tenant. Reading them takes no tokens. */
export class ToolRateLimits {
  constructor(
    private readonly list: ToolList,
    private readonly limiter: RateLimiter,
  ) {}

  /** Limited tools by name. */
  async of(caller: Principal): Promise<ToolLimit[]> {
    const tools = await this.list.originals(caller);
    const limited = tools.flatMap((tool) => {
      const rate = toolRate(tool);
      return rate ? [{ name: tool.name, rate }] : [];
    });
    return Promise.all(
      limited.map(async ({ name, rate }, index) => ({
        tool: name,
        per_minute: rate.perPeriod,
        left: index < MOST_LOOKED_AT ? await this.limiter.peek(rateKey(caller.tenantId, name), rate) : null,
      })),
    );
  }
}
