import {
  CATALOGUE,
  costNothing,
  type CallResult,
  type ExecutionFailure,
  type Failed,
  type Milliseconds,
  type Substituted,
} from '@toolfleet/contracts';
import type { Call } from '../call.js';
import { step, type Step } from '../step.js';
import type { EnginePorts } from '../ports.js';
import { explainFailure, isRefusal } from '../result.js';
import { toCacheScope } from './cache.js';

/**
 * Replaces the result of a tool that could not be reached: by a stale cached result, else by the tool's stub, else by an explanation.
 * Each substitute is marked in its text and metadata, because a model would take an unmarked one for the truth. What a tool itself
 * reports as a failure is explained and not marked.
 */
export function fallback(ports: Pick<EnginePorts, 'cache' | 'meter' | 'clock'>): Step {
  return step('fallback', (next) => async (call) => {
    const result = await next(call);
    if (result.ok) return result;
    if (isReplaceable(result.failure)) {
      const instead = (await staleResult(ports, call, result)) ?? stubResult(call, result);
      if (instead) {
        ports.meter.fellBack(call.tool, instead.provenance === 'stub' ? 'stub_data' : 'stale_cache');
        return instead;
      }
    }
    if (isRefusal(result.failure)) return result;
    ports.meter.fellBack(call.tool, 'graceful_error');
    const explained = explainFailure(call.tool.name, result);
    if (!isReplaceable(result.failure)) return explained;
    return { ...explained, metadata: { ...explained.metadata, fallback: 'graceful_error' } };
  });
}

function isReplaceable({ code, retryable }: ExecutionFailure): boolean {
  const { replaceable } = CATALOGUE[code];
  return replaceable === 'if_retryable' ? retryable : replaceable;
}

async function staleResult(
  ports: Pick<EnginePorts, 'cache' | 'clock'>,
  call: Call,
  failedResult: Failed,
): Promise<Substituted | undefined> {
  if (!call.plan.idempotent || !call.identity.isShareable || call.request.reuse.cache !== undefined) return undefined;
  const stale = await ports.cache.getStale(call.identity.resultKey, toCacheScope(call));
  if (!stale) return undefined;
  const ageMs = Math.max(0, Math.round(ports.clock.now() - stale.storedAt));
  const note = `Not a live result: the tool could not be reached, and this is its answer of ${toAge(ageMs)} ago.`;
  return substitute(failedResult, 'stale_cache', note, {
    ...stale.result,
    metadata: { ...stale.result.metadata, fallback: 'stale_cache', cache_age_ms: ageMs },
  });
}

/** `90 s`, `12 min`: in seconds below two minutes. */
function toAge(ms: Milliseconds): string {
  return ms < 120_000 ? `${Math.round(ms / 1_000)} s` : `${Math.round(ms / 60_000)} min`;
}

function stubResult(call: Call, failedResult: Failed): Substituted | undefined {
  const stub = call.tool.stub_data;
  if (stub === undefined) return undefined;
  return substitute(failedResult, 'stub', 'Substitute data, not a live result: the tool could not be reached.', {
    output: stub,
    text: typeof stub === 'string' ? stub : JSON.stringify(stub),
    metadata: { fallback: 'stub_data' },
  });
}

/** The substitute for a failed result. It is free, and whatever a model reads of it begins with the note. */
function substitute(
  { failure, timing, attempts }: Failed,
  provenance: Substituted['provenance'],
  note: string,
  { output, text, metadata, content }: Pick<CallResult, 'output' | 'text' | 'metadata' | 'content'>,
): Substituted {
  return {
    ...costNothing(),
    ok: true,
    provenance,
    replaced: failure,
    output,
    text: `${note} ${text}`,
    metadata: { ...metadata, disclaimer: note },
    content: content?.length ? [{ type: 'text', text: note }, ...content] : undefined,
    timing,
    attempts,
  };
}
