import { ToolError, type CallResult, type Json } from '@toolfleet/contracts';
import { FairSlots, RecentMap } from '@toolfleet/resilience';
import { step, type Step } from '../step.js';
import type { EnginePorts } from '../ports.js';

/** Most calls end within seconds, so a second later there is room. */
const RETRY_AFTER_MS = 1_000;
/** Bytes that the results of a tenant's calls in flight may be expected to have together. */
const MAX_RESULT_BYTES = 64 * 1024 * 1024;
/** Pairs of tenant and tool with a remembered result size. */
const MAX_SIZES = 20_000;

/**
 * Limits the calls in flight (`FairSlots`). Refuses at once instead of queueing, before anything is reserved or counted. A call is expected to bring as many bytes as the last
 * results of its tool did for its tenant: a hundred results of megabytes at once would hold up the messages of all others.
 * @throws ToolError QUEUE_FULL
 */
export function concurrencyLimit(ports: Pick<EnginePorts, 'settings'>): Step {
  const { maxConcurrentCalls: limit } = ports.settings;
  const slots = new FairSlots('calls', limit);
  /** Expected bytes of the results of a tenant's calls in flight. */
  const expected = new Map<string, number>();
  const sizes = new RecentMap<string, number>({ max: MAX_SIZES });
  return step('concurrency limit', (next) => async (call) => {
    const { tenantId } = call.request.principal;
    const held = expected.get(tenantId) ?? 0;
    const key = `${tenantId} ${call.tool.name}`;
    const bytes = sizes.get(key) ?? 0;
    if (held > 0 && held + bytes > MAX_RESULT_BYTES) {
      const message = `The running calls of your tenant are expected to return ${held} bytes; wait for some to end`;
      throw full(message, { running: slots.heldBy(tenantId), result_bytes: held, limit: MAX_RESULT_BYTES });
    }
    const release = slots.take(tenantId);
    if (!release) throw full('Too many calls are running', { running: slots.total, limit });
    expected.set(tenantId, held + bytes);
    try {
      const result = await next(call);
      // Smaller results are believed slowly.
      sizes.set(key, Math.max(sizeOf(result), Math.floor((sizes.get(key) ?? 0) / 2)));
      return result;
    } finally {
      release();
      const left = expected.get(tenantId)! - bytes;
      if (left > 0) expected.set(tenantId, left);
      else expected.delete(tenantId);
    }
  });
}

/** About how many bytes a result has: its text and the output. */
const sizeOf = ({ ok, text }: CallResult): number => (ok ? 2 * text.length : 0);

const full = (message: string, details: Record<string, Json>): ToolError =>
  new ToolError('QUEUE_FULL', { message, details, retryAfterMs: RETRY_AFTER_MS });
