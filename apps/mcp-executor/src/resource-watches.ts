import { randomUUID } from 'node:crypto';
import { isJsonObject, type Milliseconds } from '@toolfleet/contracts';
import {
  LEASE_MS,
  LEASE_RENEWAL_MS,
  type ResourceClaim,
  type ResourceLease,
  type ResourceUpdate,
} from '@toolfleet/contracts/execution';
import { SUBJECTS } from '@toolfleet/contracts/subjects';
import type { CancelTimer, Clock } from '@toolfleet/resilience';
import type { NatsClient } from '@toolfleet/transport';
import { ResourceLeases } from './resource-leases.js';

/** The subscription of this process at one source. */
export interface UpstreamWatch {
  /** Subscribes to exactly these addresses. */
  want(uris: ReadonlySet<string>): void;
  close(): void;
}

/** Opens a subscription. `onUpdated` gets the address of a resource that has changed. */
type OpenWatch = (binding: ResourceLease['binding'], onUpdated: (uri: string) => void) => UpstreamWatch;

interface Source {
  readonly leases: ResourceLeases;
  /** Present while this process subscribes at the source. */
  upstream?: UpstreamWatch;
  /** Present from the claim of this process until its subscription. */
  cancelClaim?: CancelTimer;
  /** Until when another executor subscribes at the source. */
  othersUntil: Milliseconds;
}

/** How long a claim may be contested before the source is contacted. */
const CLAIM_MS = 250;
/** Most sources that one process subscribes at: each holds a session. More are left to other replicas. */
const MAX_SOURCES = 100;

/**
 * Subscriptions to resources of MCP servers. Every executor hears the leases of all gateways, and one of them subscribes: it claims the
 * source first, and of two claims the one with the lower name stands. When it is gone, its claim expires and another executor
 * takes over at the next renewal of a lease.
 */
export class ResourceWatches {
  readonly #sources = new Map<string, Source>();
  #cancelRenewal: CancelTimer = () => undefined;

  constructor(
    private readonly nats: Pick<NatsClient, 'connected' | 'publish' | 'subscribe'>,
    private readonly clock: Clock,
    private readonly open: OpenWatch,
    private readonly name: string = randomUUID(),
  ) {}

  /** Sources that this process subscribes at. */
  get size(): number {
    return [...this.#sources.values()].filter(({ upstream }) => upstream).length;
  }

  /** A component that starts after the connection to NATS. */
  asComponent(): { name: string; start(): Promise<void>; stop(): Promise<void> } {
    return { name: 'resource subscriptions', start: async () => this.#start(), stop: async () => this.#stop() };
  }

  #start(): void {
    this.nats.subscribe(SUBJECTS.execMcpWatch, ({ body }) => isLease(body) && this.#renewed(body));
    this.nats.subscribe(SUBJECTS.execMcpClaim, ({ body }) => isClaim(body) && this.#claimed(body));
    this.#scheduleRenewal();
  }

  #stop(): void {
    this.#cancelRenewal();
    for (const source of this.#sources.values()) release(source);
    this.#sources.clear();
  }

  #scheduleRenewal(): void {
    this.#cancelRenewal = this.clock.after(LEASE_RENEWAL_MS, () => {
      for (const [id, source] of this.#sources) this.#follow(id, source);
      this.#scheduleRenewal();
    });
  }

  /** Renews the claim of this process, and gives up sources that no gateway wants any more. */
  #follow(id: string, source: Source): void {
    const wanted = source.leases.wanted(this.clock.monotonic());
    if (wanted.size === 0) {
      release(source);
      this.#sources.delete(id);
      return;
    }
    if (!source.upstream) return;
    source.upstream.want(wanted);
    this.#claim(id);
  }

  #renewed({ source: id, gateway, uris, binding }: ResourceLease): void {
    const now = this.clock.monotonic();
    const source = this.#source(id);
    source.leases.renew(gateway, uris, now);
    const wanted = source.leases.wanted(now);
    if (wanted.size === 0) return this.#follow(id, source);
    if (source.upstream) return source.upstream.want(wanted);
    if (source.cancelClaim || source.othersUntil > now || this.size >= MAX_SOURCES) return;
    this.#claim(id);
    source.cancelClaim = this.clock.after(CLAIM_MS, () => {
      source.cancelClaim = undefined;
      try {
        source.upstream = this.open(binding, (uri) => this.#publish(SUBJECTS.mcpUpdated, { source: id, uri }));
      } catch {
        return; // The options of the source are invalid, as every call of it reports.
      }
      source.upstream.want(source.leases.wanted(this.clock.monotonic()));
    });
  }

  #claimed({ source: id, executor }: ResourceClaim): void {
    if (executor === this.name) return;
    const source = this.#source(id);
    const isMine = source.upstream ?? source.cancelClaim;
    if (isMine && this.name < executor) return this.#claim(id);
    release(source);
    source.othersUntil = this.clock.monotonic() + LEASE_MS;
  }

  #source(id: string): Source {
    let source = this.#sources.get(id);
    if (!source) this.#sources.set(id, (source = { leases: new ResourceLeases(), othersUntil: 0 }));
    return source;
  }

  #claim(source: string): void {
    this.#publish(SUBJECTS.execMcpClaim, { source, executor: this.name });
  }

  #publish(subject: string, message: ResourceClaim | ResourceUpdate): void {
    if (this.nats.connected) this.nats.publish(subject, message);
  }
}

function release(source: Source): void {
  source.cancelClaim?.();
  source.cancelClaim = undefined;
  source.upstream?.close();
  source.upstream = undefined;
}

function isLease(body: unknown): body is ResourceLease {
  if (!isJsonObject(body as never)) return false;
  const { gateway, source, binding, uris } = body as Partial<ResourceLease>;
  return typeof gateway === 'string' && typeof source === 'string' && binding?.kind === 'mcp' && isTexts(uris);
}

const isTexts = (value: unknown): boolean => Array.isArray(value) && value.every((item) => typeof item === 'string');

function isClaim(body: unknown): body is ResourceClaim {
  if (!isJsonObject(body as never)) return false;
  const { source, executor } = body as Partial<ResourceClaim>;
  return typeof source === 'string' && typeof executor === 'string';
}
