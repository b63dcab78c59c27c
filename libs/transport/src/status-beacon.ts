import { randomUUID } from 'node:crypto';
import {
  MAX_REPORTED_BREAKERS,
  type BreakerStatus,
  type FleetStatus,
  type SlotStatus,
} from '@toolfleet/contracts/fleet';
import { SUBJECTS } from '@toolfleet/contracts/subjects';
import type { CancelTimer, Clock } from '@toolfleet/resilience';
import type { NatsClient } from './nats-client.js';

/** How often a process tells its state: often enough to watch, 20 messages a second in a fleet of 100 processes. */
const EVERY_MS = 5_000;
/** Three missed messages: the process is gone. */
const TTL_MS = 3 * EVERY_MS;

/** What a process tells about itself; read at each turn. */
export interface BeaconSource {
  service: string;
  slots?: () => SlotStatus;
  breakers?: () => BreakerStatus[];
}

/** Tells operators' views what this process does (`fleet.status`): fire and forget, nothing waits for it. A part of a service. */
export class Heartbeat {
  readonly name = 'status beacon';
  readonly #instance = randomUUID().slice(0, 8);
  #cancel: CancelTimer | undefined;

  constructor(
    private readonly nats: Pick<NatsClient, 'connected' | 'publish'>,
    private readonly clock: Clock,
    private readonly source: BeaconSource,
  ) {}

  async start(): Promise<void> {
    this.tell();
    this.#cancel = this.clock.after(EVERY_MS, () => void this.start());
  }

  async stop(): Promise<void> {
    this.#cancel?.();
  }

  /** Tells the state now. */
  tell(): void {
    const { service, slots, breakers } = this.source;
    const status: FleetStatus = {
      service,
      instance: this.#instance,
      ttl_ms: TTL_MS,
      ...(slots ? { slots: slots() } : {}),
      breakers: (breakers?.() ?? []).toSorted((a, b) => b.open_for_ms - a.open_for_ms).slice(0, MAX_REPORTED_BREAKERS),
    };
    if (this.nats.connected) this.nats.publish(SUBJECTS.fleetStatus, status);
  }
}
