import { hash, randomUUID } from 'node:crypto';
import { isJsonObject, ToolError, type Json, type JsonObject, type Principal } from '@toolfleet/contracts';
import { LEASE_RENEWAL_MS, type ResourceLease } from '@toolfleet/contracts/execution';
import { SUBJECTS } from '@toolfleet/contracts/subjects';
import type { McpBinding, RegisteredTool } from '@toolfleet/contracts/tool-definition';
import type { CancelTimer, Clock } from '@toolfleet/resilience';
import type { NatsClient } from '@toolfleet/transport';

/** A resource of a server that a caller may read. */
export interface FoundResource {
  definition: RegisteredTool;
  /** Its address at the server. */
  uri: string;
}

/** A stream that subscribes to resources. */
export interface Subscriber {
  principal: Principal;
  /** As the client names them. */
  addresses: readonly string[];
  /** Finds a resource with the rights that the caller has by now; undefined: no longer. */
  find(address: string): Promise<FoundResource | undefined>;
  /** The resource was updated, or may have been before the subscription began. */
  onUpdated(address: string): void;
}

/** The subscription of a stream. */
interface Subscription {
  /** Replaces the addresses. */
  want(addresses: readonly string[]): void;
  close(): void;
}

/** Wanted resources of each source, and the clients of each address there. */
type Wanted = Map<string, { lease: ResourceLease; clients: Map<string, (() => void)[]> }>;

/** Maximum number of resources of one stream. */
const MAX_PER_STREAM = 100;
/** Maximum number of resources of all streams of one tenant at one gateway. */
const MAX_PER_TENANT = 1_000;
/** Streams that open at the same time share one round of leases. */
const COLLECT_MS = 20;

/**
 * Subscriptions of the MCP clients of this gateway to resources of MCP servers. mcp-executor subscribes at the servers, as long as leases
 * ask for it; a lease names everything that the gateway wants of a source. Each client's sight is looked up at every renewal.
 */
export class ResourceSubscriptions {
  readonly #gateway = randomUUID();
  /** With the addresses that each is subscribed to by now. */
  readonly #subscribers = new Map<Subscriber, ReadonlySet<string>>();
  #wanted: Wanted = new Map();
  #renewing = Promise.resolve();
  /** Present while a renewal is due. */
  #cancelRenewal: CancelTimer | undefined;
  #isListening = false;

  constructor(
    private readonly nats: Pick<NatsClient, 'connected' | 'publish' | 'subscribe'>,
    private readonly clock: Clock,
    private readonly onFault: (error: unknown) => void,
  ) {}

  /** Whether a stream may subscribe to that many resources. @throws ToolError REQUEST_INVALID, QUEUE_FULL */
  check({ tenantId }: Principal, count: number): void {
    if (count > MAX_PER_STREAM) {
      const message = `A stream may subscribe to ${MAX_PER_STREAM} resources; this one names ${count}`;
      throw new ToolError('REQUEST_INVALID', { message });
    }
    let ofTenant = count;
    for (const { principal, addresses } of this.#subscribers.keys())
      if (principal.tenantId === tenantId) ofTenant += addresses.length;
    if (ofTenant > MAX_PER_TENANT) {
      const message = `Your tenant subscribes to more than ${MAX_PER_TENANT} resources`;
      throw new ToolError('QUEUE_FULL', { message });
    }
  }

  /** Subscribes a stream to its addresses. */
  add(stream: Subscriber): Subscription {
    const subscriber = { ...stream };
    this.#subscribers.set(subscriber, new Set());
    this.#renewIn(COLLECT_MS);
    return {
      want: (addresses) => {
        subscriber.addresses = addresses;
        this.#renewIn(COLLECT_MS);
      },
      close: () => {
        if (this.#subscribers.delete(subscriber)) this.#renewIn(COLLECT_MS);
      },
    };
  }

  #renewIn(delayMs: number): void {
    this.#cancelRenewal?.();
    this.#cancelRenewal = this.clock.after(delayMs, () => {
      this.#cancelRenewal = undefined;
      this.#renewing = this.#renewing
        .then(() => this.#renew())
        .catch(this.onFault)
        .then(() => {
          if (!this.#cancelRenewal && this.#subscribers.size > 0) this.#renewIn(LEASE_RENEWAL_MS);
        });
    });
  }

  async #renew(): Promise<void> {
    const wanted: Wanted = new Map();
    const begun = new Map<Subscriber, Set<string>>();
    for (const subscriber of [...this.#subscribers.keys()]) {
      const addresses = new Set<string>();
      begun.set(subscriber, addresses);
      for (const address of subscriber.addresses) {
        const found = await subscriber.find(address);
        if (found?.definition.binding.kind !== 'mcp') continue;
        const { binding } = found.definition;
        const source = sourceOf(found.definition, binding);
        let entry = wanted.get(source);
        if (!entry) {
          entry = { lease: { gateway: this.#gateway, source, binding, uris: [] }, clients: new Map() };
          wanted.set(source, entry);
        }
        const clients = entry.clients.get(found.uri) ?? [];
        entry.clients.set(found.uri, clients);
        addresses.add(address);
        clients.push(() => this.#subscribers.has(subscriber) && subscriber.onUpdated(address));
      }
    }
    const before = this.#wanted;
    this.#wanted = wanted;
    begun.forEach((addresses, subscriber) => this.#begin(subscriber, addresses));
    if (!this.nats.connected) return;
    this.#listen();
    for (const [source, { lease }] of before)
      if (!wanted.has(source)) this.nats.publish(SUBJECTS.execMcpWatch, { ...lease, uris: [] });
    for (const { lease, clients } of wanted.values())
      this.nats.publish(SUBJECTS.execMcpWatch, { ...lease, uris: [...clients.keys()] });
  }

  /** A stream that joins the subscription of others may have missed an update between its request and this renewal. */
  #begin(subscriber: Subscriber, addresses: ReadonlySet<string>): void {
    const earlier = this.#subscribers.get(subscriber);
    if (!earlier) return;
    this.#subscribers.set(subscriber, addresses);
    for (const address of addresses) if (!earlier.has(address)) subscriber.onUpdated(address);
  }

  #listen(): void {
    if (this.#isListening) return;
    this.#isListening = true;
    this.nats.subscribe(SUBJECTS.mcpUpdated, ({ body }) => {
      if (!isJsonObject(body as Json)) return;
      const { source, uri } = body as JsonObject;
      for (const notify of this.#wanted.get(String(source))?.clients.get(String(uri)) ?? []) notify();
    });
  }
}

/** Equal as long as the same server is reached in the same way: lists and the detected revision change more often. */
function sourceOf({ tenant, name }: RegisteredTool, { server, transport, url, options }: McpBinding): string {
  const { prior: _prior, ...connection } = options ?? {};
  return hash('sha256', JSON.stringify([tenant ?? null, name, server, transport, url, connection]), 'base64url');
}
