import { hash } from 'node:crypto';
import { isJsonObject, ToolError, type EpochMs, type Json, type Principal } from '@toolfleet/contracts';
import { SUBJECTS } from '@toolfleet/contracts/subjects';
import { AbortSource, InFlight, type Clock } from '@toolfleet/resilience';
import type { NatsClient } from '@toolfleet/transport';

/** A JSON-RPC request as its client names it. Request ids are unique within one session of one caller only. */
export interface ClientRequest {
  principal: Principal;
  /** `Mcp-Session-Id`; undefined for clients that do not send it. */
  session: string | undefined;
  id: string | number;
}

/**
 * How long a cancellation waits for its request. Both are separate HTTP requests, so a cancellation sent right after its
 * request may overtake it.
 */
const EARLY_MS = 10_000;
/** Cancellations kept that long; beyond it the oldest are dropped. */
const MAX_EARLY = 1_000;

/**
 * Cancels calls of 2025 clients by `notifications/cancelled`. The notification may reach any replica, so a replica that does not
 * run the call publishes it to all gateways.
 *
 * A request is identified by tenant, user, API key, session and request id, so that no caller can cancel another one's call.
 * Clients without a session share their ids with every such client of the same credential: if two of them run a request with the
 * same id, neither is cancelled.
 */
export class CallCancellations {
  private readonly running = new Map<string, InFlight<AbortSource>>();
  /** Cancellations that arrived before their request, by key, with the time at which they expire. */
  private readonly early = new Map<string, EpochMs>();
  private isListening = false;

  constructor(
    private readonly clock: Clock,
    private readonly nats: Pick<NatsClient, 'publish' | 'subscribe'>,
  ) {}

  /** Tracks a call from before it starts, and aborts it when its client cancels the request. @returns ends this */
  track(request: ClientRequest, call: AbortSource): () => void {
    this.listen();
    const key = toKey(request);
    const calls = this.running.get(key) ?? new InFlight();
    this.running.set(key, calls);
    const remove = calls.add(call);
    const cancelledUntil = this.early.get(key);
    if (cancelledUntil !== undefined && this.early.delete(key) && cancelledUntil > this.clock.now()) abort(call);
    return () => {
      remove();
      if (calls.size === 0) this.running.delete(key);
    };
  }

  /** Cancels a call, wherever it runs. @throws ToolError EXECUTOR_UNAVAILABLE when other replicas cannot be reached */
  cancel(request: ClientRequest): void {
    this.listen();
    const key = toKey(request);
    const hasSession = request.session !== undefined;
    if (!this.cancelHere(key, hasSession)) this.nats.publish(SUBJECTS.mcpCancel, { key, has_session: hasSession });
  }

  /** @returns whether this replica runs the call */
  private cancelHere(key: string, hasSession: boolean): boolean {
    const calls = this.running.get(key);
    if (calls) {
      if (hasSession || calls.size === 1) for (const call of calls) abort(call);
      return true;
    }
    // Without a session the id may be used again by another client.
    if (hasSession) this.remember(key);
    return false;
  }

  private remember(key: string): void {
    this.early.delete(key);
    this.early.set(key, this.clock.now() + EARLY_MS);
    const [oldest] = this.early.keys();
    if (this.early.size > MAX_EARLY && oldest !== undefined) this.early.delete(oldest);
  }

  private listen(): void {
    if (this.isListening) return;
    try {
      this.nats.subscribe(SUBJECTS.mcpCancel, ({ body }) => {
        if (!isJsonObject(body) || typeof body['key'] !== 'string') return;
        this.cancelHere(body['key'], body['has_session'] === true);
      });
      this.isListening = true;
    } catch {
      // Not connected yet: the next call or cancellation tries again.
    }
  }
}

/** The ids of the requests that the `notifications/cancelled` in a body name. */
export function readCancelledIds(body: Json | undefined): (string | number)[] {
  return (Array.isArray(body) ? body : [body]).flatMap((message) => {
    if (!isJsonObject(message) || message['method'] !== 'notifications/cancelled') return [];
    const id = isJsonObject(message['params']) ? message['params']['requestId'] : undefined;
    return typeof id === 'string' || typeof id === 'number' ? [id] : [];
  });
}

/** A hash, because clients choose the length of their ids. */
function toKey({ principal, session, id }: ClientRequest): string {
  const parts = [principal.tenantId, principal.userId, principal.keyId ?? null, session ?? null, id];
  return hash('sha256', JSON.stringify(parts), 'base64url');
}

function abort(call: AbortSource): void {
  call.abort(new ToolError('CANCELLED', { message: 'The client cancelled the request' }));
}
