import { isJsonObject } from '@toolfleet/contracts';
import type { FleetStatus } from '@toolfleet/contracts/fleet';
import { SUBJECTS } from '@toolfleet/contracts/subjects';
import type { Clock } from '@toolfleet/resilience';
import type { NatsClient } from '@toolfleet/transport';

/** Processes remembered; a fleet is far smaller. */
const MOST = 2_000;
const LONGEST_TTL_MS = 60_000;

/** A process that told its state lately. */
export interface SeenProcess extends FleetStatus {
  /** Milliseconds since it told it. */
  age_ms: number;
}

/** What gateways and executors told about themselves (`fleet.status`), remembered until they should have told more. */
export class FleetWatch {
  readonly #seen = new Map<string, { status: FleetStatus; at: number }>();

  constructor(
    private readonly nats: Pick<NatsClient, 'subscribe'>,
    private readonly clock: Clock,
  ) {}

  /** Begins to listen; needs a connection. */
  follow(): void {
    this.nats.subscribe(SUBJECTS.fleetStatus, ({ body }) => {
      if (isStatus(body)) this.note(body);
    });
  }

  /** Takes one message in. */
  note(status: FleetStatus): void {
    const id = `${status.service}/${status.instance}`;
    if (this.#seen.size >= MOST && !this.#seen.has(id)) this.#forgetGone();
    if (this.#seen.size < MOST || this.#seen.has(id)) this.#seen.set(id, { status, at: this.clock.monotonic() });
  }

  /** Processes that are there, by service. */
  processes(): SeenProcess[] {
    this.#forgetGone();
    const now = this.clock.monotonic();
    return [...this.#seen.values()]
      .map(({ status, at }) => ({ ...status, age_ms: Math.round(now - at) }))
      .toSorted((a, b) => (a.service < b.service ? -1 : a.service > b.service ? 1 : 0));
  }

  #forgetGone(): void {
    const now = this.clock.monotonic();
    for (const [id, { status, at }] of this.#seen) {
      if (now - at > Math.min(status.ttl_ms, LONGEST_TTL_MS)) this.#seen.delete(id);
    }
  }
}

function isStatus(body: unknown): body is FleetStatus {
  if (!isJsonObject(body)) return false;
  const { service, instance, ttl_ms: ttl, breakers } = body;
  return (
    typeof service === 'string' && typeof instance === 'string' && typeof ttl === 'number' && Array.isArray(breakers)
  );
}
