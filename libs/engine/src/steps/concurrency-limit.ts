import { ToolError, type CallResult, type Json } from '@toolfleet/contracts';
import { LRUCache } from 'lru-cache';
import { step, type Step } from '../step.js';
import type { EnginePorts } from '../ports.js';

/** Most calls end within seconds, so a second later there is room. */
const RETRY_AFTER_MS = 1_000;
/** Bytes that the results of a tenant's calls in flight may be expected to have together. */
const MAX_RESULT_BYTES = 64 * 1024 * 1024;
/** Pairs of tenant and tool whose result size is remembered. */
const MAX_SIZES = 20_000;

/** The calls of a tenant in flight. */
interface InFlight {
  calls: number;
  /** Expected bytes of their results. */
  bytes: number;
}

/**
 * Limits the calls in flight. Refuses at once instead of queueing, before anything is reserved or counted. While more than half
 * of the slots are taken, no tenant gets more than its equal share of them. A call is expected to bring as many bytes as the last
 * results of its tool did for its tenant: a hundred results of megabytes at once would hold up the messages of all others.
 * @throws ToolError QUEUE_FULL
 */
export function concurrencyLimit(ports: Pick<EnginePorts, 'settings'>): Step {
  const { maxConcurrentCalls: limit } = ports.settings;
  const inFlight = new Map<string, InFlight>();
  const sizes = new LRUCache<string, number>({ max: MAX_SIZES });
  let total = 0;
  return step('concurrency limit', async (call, next) => {
    const { tenantId } = call.request.principal;
    const own = inFlight.get(tenantId) ?? { calls: 0, bytes: 0 };
    const tenants = inFlight.size + (own.calls === 0 ? 1 : 0);
    if (total >= limit || (total >= limit / 2 && own.calls >= limit / tenants))
      throw full('Too many calls are running', { running: total, limit });
    const key = `${tenantId} ${call.tool.name}`;
    const bytes = sizes.get(key) ?? 0;
    if (own.bytes > 0 && own.bytes + bytes > MAX_RESULT_BYTES) {
      const message = `The running calls of your tenant are expected to return ${own.bytes} bytes; wait for some to end`;
      throw full(message, { running: own.calls, result_bytes: own.bytes, limit: MAX_RESULT_BYTES });
    }
    total += 1;
    own.calls += 1;
    own.bytes += bytes;
    inFlight.set(tenantId, own);
    try {
      const result = await next(call);
      // Smaller results are believed slowly.
      sizes.set(key, Math.max(sizeOf(result), Math.floor((sizes.get(key) ?? 0) / 2)));
      return result;
    } finally {
      total -= 1;
      own.calls -= 1;
      own.bytes -= bytes;
      if (own.calls === 0) inFlight.delete(tenantId);
    }
  });
}

/** About how many bytes a result has: its text, which shows the output, and the output. */
const sizeOf = ({ ok, text }: CallResult): number => (ok ? 2 * text.length : 0);

const full = (message: string, details: Record<string, Json>): ToolError =>
  new ToolError('QUEUE_FULL', { message, details, retryAfterMs: RETRY_AFTER_MS });
