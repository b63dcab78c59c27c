import {
  CATALOGUE,
  syntheticTokens,
  toUsd,
  type CallBody,
  type CallResult,
  type ContentBlock,
  type JsonObject,
} from '@toolfleet/contracts';
import { SIZES } from '@toolfleet/contracts/subjects';
import { suggestionFor } from './graceful-error.js';

/** Longest `text`. */
const MAX_TEXT_CHARS = 6_000;

/**
 * A finished call as every plain door shows it. The metadata says where the answer
 * comes from, how often was tried, where the time went, and for a failure what it is and what to do (issue: failure as
 * information).
 */
export function callBody(callId: string, result: CallResult, durationMs: number): CallBody {
  const rich = richContent(result);
  return {
    success: result.ok,
    output: result.output,
    text: result.text.length > MAX_TEXT_CHARS ? `${result.text.slice(0, MAX_TEXT_CHARS - 1)}…` : result.text,
    error: result.ok ? null : (result.failure?.message ?? 'The tool failed'),
    metadata: { ...metadataOf(result), ...rich.metadata },
    ...(rich.content ? { content: rich.content } : {}),
    execution_time_ms: Math.round(durationMs),
    usage: usageOf(result),
    call_id: callId,
  };
}

/** Content blocks within the cap; larger ones are left out whole, and the metadata says so. */
function richContent({ content }: CallResult): { content?: ContentBlock[]; metadata?: JsonObject } {
  if (!content?.length) return {};
  const bytes = Buffer.byteLength(JSON.stringify(content));
  if (bytes <= SIZES.toolResult) return { content };
  return { metadata: { content_omitted: { blocks: content.length, bytes, limit: SIZES.toolResult } } };
}

/** Tokens shown: really used ones, else the synthetic ones of the cost; nothing where nothing ran or was charged. */
function usageOf(result: CallResult): CallBody['usage'] {
  const { tokens, microUsd } = result.usage;
  const charged = result.provenance === 'live' && result.attempts > 0 && (result.ok || microUsd > 0);
  return { tokens: tokens > 0 ? tokens : charged ? syntheticTokens(microUsd) : 0, cost_usd: toUsd(microUsd) };
}

function metadataOf(result: CallResult): JsonObject {
  const { failure, timing } = result;
  const metadata: JsonObject = {
    ...result.metadata,
    provenance: result.provenance,
    attempts: result.attempts,
    timing: {
      queue_ms: Math.round(timing.queue_ms),
      wait_ms: Math.round(timing.wait_ms),
      execute_ms: Math.round(timing.execute_ms),
    },
  };
  if (!failure) return metadata;
  metadata.code = failure.code;
  metadata.error_type = failure.errorType;
  metadata.retryable = failure.retryable;
  metadata.chargeable = CATALOGUE[failure.code].chargeable;
  metadata.suggestion = suggestionFor(failure.code, failure.errorType);
  if (failure.retryAfterMs !== undefined) metadata.retry_after_ms = failure.retryAfterMs;
  if (failure.details) metadata.details = failure.details;
  return metadata;
}
