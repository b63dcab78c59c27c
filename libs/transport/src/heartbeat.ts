import { randomUUID } from 'node:crypto';
import {
  MAX_REPORTED_BREAKERS,
  MAX_REPORTED_FAULTS,
  type BreakerStatus,
  type FleetStatus,
  type ServiceFault,
  type SlotStatus,
} from '@toolfleet/contracts/fleet';
import { SUBJECTS } from '@toolfleet/contracts/subjects';
import { Rounds, type Clock } from '@toolfleet/resilience';
import type { NatsClient } from './nats-client.js';

/** Often enough to watch; 20 messages a second in a fleet of 100 processes. */
const EVERY_MS = 5_000;
/** After three missed messages the process counts as gone. */
const TTL_MS = 3 * EVERY_MS;

/** The report of a process about itself; read at each beat. */
interface HeartbeatSource {
  service: string;
  /** Default: random. */
  instance?: string;
  slots?: () => SlotStatus;
  breakers?: () => BreakerStatus[];
  /** Faults in configuration and policies; a change is published at once. */
  faults: { list(): ServiceFault[]; onChange(listener: () => void): void };
}

/** Publishes the state of this process (`fleet.status`) for operators, fire and forget. A lifecycle component. */
export class Heartbeat {
  readonly name = 'heartbeat';
  readonly #instance: string;
  readonly #beats: Rounds;

  constructor(
    private readonly nats: Pick<NatsClient, 'connected' | 'publish'>,
    clock: Clock,
    private readonly source: HeartbeatSource,
  ) {
    this.#instance = source.instance ?? randomUUID().slice(0, 8);
    this.#beats = new Rounds({ clock, everyMs: EVERY_MS, work: () => this.publish() });
    source.faults.onChange(() => this.publish());
  }

  async start(): Promise<void> {
    this.publish();
    this.#beats.start();
  }

  async stop(): Promise<void> {
    void this.#beats.stop();
  }

  /** Publishes the state now; drops it while disconnected. */
  publish(): void {
    const { service, slots, breakers, faults } = this.source;
    const status: FleetStatus = {
      service,
      instance: this.#instance,
      ttl_ms: TTL_MS,
      slots: slots?.(),
      breakers: (breakers?.() ?? []).toSorted((a, b) => b.open_for_ms - a.open_for_ms).slice(0, MAX_REPORTED_BREAKERS),
      faults: faults.list().slice(0, MAX_REPORTED_FAULTS),
    };
    if (this.nats.connected) this.nats.publish(SUBJECTS.fleetStatus, status);
  }
}
