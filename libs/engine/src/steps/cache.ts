import { RecentMap } from '@toolfleet/resilience';
import { costNothing, type CallResult, type Succeeded } from '@toolfleet/contracts';
import type { CacheVersion, Call } from '../call.js';
import { step, type Step, type Next } from '../step.js';
import type { CacheScope, EnginePorts, ResultCache } from '../ports.js';
import type { ToolLatencies } from './load-shedding.js';

/** Tools that are faster than this are not looked up in the shared cache: the lookup would take longer than the work. */
const SHARED_FROM_MS = 5;
/** Responses in a row that allow no reuse, after which the results of a tool are not looked up until one allows it. */
const NOT_REUSABLE = 16;
/** Pairs of tenant and tool that are remembered. */
const MAX_PAIRS = 20_000;

/**
 * Which tools return what no other call may reuse: most APIs state no freshness, and a lookup waits for Redis. Only what this tenant
 * got counts, so that a tenant does not keep another one from its results.
 */
class ReusableResults {
  /** Responses that allowed no reuse since the last one that did. */
  readonly #unusable = new RecentMap<string, number>({ max: MAX_PAIRS });

  /** False for a tool with an upstream that decides, and has not allowed reuse lately. */
  mayExist(call: Call): boolean {
    const { plan } = call;
    return !plan.isOnlyStale && !(isUpToUpstream(call) && (this.#unusable.get(pairKey(call)) ?? 0) >= NOT_REUSABLE);
  }

  note(call: Call, isReusable: boolean): void {
    if (!isUpToUpstream(call)) return;
    const key = pairKey(call);
    this.#unusable.set(key, isReusable ? 0 : (this.#unusable.get(key) ?? 0) + 1);
  }
}

const isUpToUpstream = ({ plan }: Call): boolean => plan.cacheTtlMs === undefined && !plan.isOnlyStale;

const pairKey = ({ tool, request }: Call): string => `${tool.name} ${tool.revision} ${request.principal.tenantId}`;

/**
 * Answers idempotent calls from the cache, without using quota or budget, and stores successful live results. A call with effects
 * drops its tenant's cached results of its source. Calls with an idempotency key bypass the cache: the journal has their first
 * outcome, and that one must be replayed.
 */
export function cache(
  ports: Pick<EnginePorts, 'cache' | 'meter' | 'settings' | 'clock'>,
  latencies: ToolLatencies,
): Step {
  const reusable = new ReusableResults();
  return step('cache', (next) => async (call) => {
    const { identity, plan, request, tool } = call;
    if (plan.hasEffects) return runAndDrop(ports.cache, call, next);
    // A TTL of 0 also keeps results out of the stale cache.
    if (
      !plan.idempotent ||
      plan.cacheTtlMs === 0 ||
      !identity.isShareable ||
      request.reuse.idempotencyKey !== undefined
    )
      return next(call);
    if (request.reuse.cache === 'no-store') return next(call);
    const key = identity.resultKey;
    const isFast = (latencies.medianMs(call) ?? SHARED_FROM_MS) < SHARED_FROM_MS;
    const scope = toCacheScope(call, isFast);
    const run = async (version: CacheVersion | undefined): Promise<CallResult> => {
      const result = await next({ ...call, cacheVersion: version });
      if (result.ok && result.provenance === 'live') {
        const freshMs = freshnessMs(call, result);
        reusable.note(call, freshMs !== undefined && freshMs > 0);
        keep(ports, call, result, { scope, version, freshMs });
      }
      return result;
    };
    if (!reusable.mayExist(call)) return run(await ports.cache.version(scope));
    const lookup = ports.cache.get(key, scope);
    const { cached, version } = lookup instanceof Promise ? await lookup : lookup;
    if (cached && request.reuse.cache === undefined) {
      ports.meter.cacheLookup(tool, 'hit');
      return toCachedResult(cached.result, ports.clock.now() - cached.storedAt);
    }
    ports.meter.cacheLookup(tool, 'miss');
    return run(version);
  });
}

/** Keeps a live result, unless it must not be kept or the version of its scope is not known. */
function keep(
  { cache: results, settings }: Pick<EnginePorts, 'cache' | 'settings'>,
  { identity }: Call,
  result: Succeeded,
  { scope, version, freshMs }: { scope: CacheScope; version: CacheVersion | undefined; freshMs: number | undefined },
): void {
  if (freshMs === undefined || version === undefined) return;
  results.set(identity.resultKey, result, { freshMs, staleMs: settings.staleTtlMs, scope, version });
}

/**
 * The cached results that belong together with this call's tool. Results of a source with tools that may have effects are
 * looked up where the effects of every replica are seen.
 */
export function toCacheScope({ plan, request, tool }: Call, isFast = false): CacheScope {
  const reach = plan.mutableSource ? 'fleet' : isFast ? 'process' : 'near';
  return { tenantId: request.principal.tenantId, source: `${tool.source.kind} ${tool.source.name}`, reach };
}

/**
 * Runs a call with effects and drops the results that it may have changed, before its caller gets the answer. A failed call may also have
 * had its effect.
 */
async function runAndDrop(results: ResultCache, call: Call, next: Next): Promise<CallResult> {
  try {
    return await next(call);
  } finally {
    if (call.active.attempts > 0) await results.drop(toCacheScope(call));
  }
}

/** How long a result may answer other calls: as declared, else as its upstream allows. Undefined: it must not be kept at all. */
function freshnessMs({ plan }: Call, { cacheTtlMs }: CallResult): number | undefined {
  if (plan.cacheTtlMs !== undefined) return plan.cacheTtlMs;
  // Without a statement of the upstream the result may replace a failure, marked as stale, but answers no other call.
  return cacheTtlMs === 0 ? undefined : (cacheTtlMs ?? 0);
}

function toCachedResult(result: Succeeded, ageMs: number): Succeeded {
  return {
    ...result,
    provenance: 'cache',
    ...costNothing(),
    metadata: { ...result.metadata, from_cache: true, cache_age_ms: Math.max(0, Math.round(ageMs)) },
  };
}
