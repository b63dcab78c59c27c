import type { CallResult, ErrorCode, ExecutionFailure } from '@toolfleet/contracts';
import type { Call, Interceptor } from '../call.js';
import type { EnginePorts } from '../ports.js';
import { explainFailure, isRefusal } from '../result.js';
import { toCacheScope } from './cache.js';

/** Failures that mean "the tool could not be reached or did not answer". The answer of a tool itself is never replaced. */
const REPLACEABLE: ReadonlySet<ErrorCode> = new Set<ErrorCode>([
  'ATTEMPT_TIMED_OUT',
  'NETWORK_ERROR',
  'UPSTREAM_ERROR',
  'EXECUTOR_UNAVAILABLE',
  'BREAKER_OPEN',
  'QUEUE_FULL',
  'SERVICE_UNAVAILABLE',
  'WORKER_LOST',
  'INTERNAL',
]);

const DISCLAIMER = 'Substitute data, not a live result: the tool could not be reached.';

/**
 * Replaces the result of a tool that could not be reached: by a stale cached result, else by the tool's stub, else by an explanation.
 * Each substitute is marked in the metadata, because a model would take an unmarked one for the truth. What a tool itself reports
 * as a failure is explained and not marked, unless it is shown as a success.
 */
export function fallback(ports: Pick<EnginePorts, 'cache' | 'meter' | 'settings' | 'clock'>): Interceptor {
  return async (call, next) => {
    const result = await next(call);
    if (!result.failure) return result;
    if (isReplaceable(result.failure)) {
      const instead = (await staleResult(ports, call, result)) ?? stubResult(call, result);
      if (instead) {
        ports.meter.fellBack(call.tool, instead.provenance === 'stub' ? 'stub_data' : 'stale_cache');
        return instead;
      }
    }
    if (isRefusal(result.failure) && !ports.settings.gracefulErrorAsSuccess) return result;
    ports.meter.fellBack(call.tool, 'graceful_error');
    const explained = explainFailure(call.tool.name, result);
    const { gracefulErrorAsSuccess } = ports.settings;
    if (!gracefulErrorAsSuccess && !isReplaceable(result.failure)) return explained;
    const metadata = { ...explained.metadata, fallback: 'graceful_error' };
    return { ...explained, ok: gracefulErrorAsSuccess, metadata };
  };
}

function isReplaceable(failure: ExecutionFailure): boolean {
  if (!REPLACEABLE.has(failure.code)) return false;
  return failure.code !== 'UPSTREAM_ERROR' || failure.retryable; // a 404 is an answer of the tool, a 503 is not
}

async function staleResult(
  ports: Pick<EnginePorts, 'cache' | 'clock'>,
  call: Call,
  failedResult: CallResult,
): Promise<CallResult | undefined> {
  if (!call.plan.idempotent || !call.identity.isShareable || call.request.cache !== undefined) return undefined;
  const stale = await ports.cache.getStale(call.identity.resultKey, toCacheScope(call));
  if (!stale) return undefined;
  return substitute(failedResult, {
    ...stale.result,
    provenance: 'stale_cache',
    metadata: {
      ...stale.result.metadata,
      fallback: 'stale_cache',
      cache_age_ms: Math.max(0, Math.round(ports.clock.now() - stale.storedAt)),
    },
  });
}

function stubResult(call: Call, failedResult: CallResult): CallResult | undefined {
  const stub = call.tool.stub_data;
  if (stub === undefined) return undefined;
  return substitute(failedResult, {
    ...failedResult,
    ok: true,
    output: stub,
    text: `${DISCLAIMER} ${typeof stub === 'string' ? stub : JSON.stringify(stub)}`,
    provenance: 'stub',
    metadata: { fallback: 'stub_data', disclaimer: DISCLAIMER },
  });
}

/** Names the replaced failure in the metadata. A substitute is free. */
function substitute(failedResult: CallResult, result: CallResult): CallResult {
  const { failure: _failure, ...rest } = result;
  const failure = failedResult.failure as ExecutionFailure;
  return {
    ...rest,
    usage: { tokens: 0, microUsd: 0 },
    metadata: { ...result.metadata, replaced_code: failure.code, replaced_error: failure.message },
    timing: failedResult.timing,
    attempts: failedResult.attempts,
  };
}
