import { ToolError, toToolError, type CallRequest, type Principal } from '@toolfleet/contracts';
import type { RegisteredTool } from '@toolfleet/contracts/tool-definition';
import { parseToolsetRef, type ServedToolset, type ToolsetRef } from '@toolfleet/contracts/toolset';
import { toolAllowed } from '@toolfleet/engine/access';
import type { Clock } from '@toolfleet/resilience';
import { Pending, type DefinitionCache } from './definition-cache.js';
import { ToolsetView } from './toolset-view.js';

/** Source of toolsets that are not cached: the registry. */
export interface ToolsetSource {
  /** The toolset of this name that a tenant uses, in a version or the latest; null if there is none. */
  getToolset(tenantId: string, name: string, version?: number): Promise<ServedToolset | null>;
}

interface CachedView {
  view: ToolsetView;
  readAt: number;
  /** The generation of the cache it was read in; after a change it is read again. */
  generation: number;
}

/** Versions of toolsets cached per gateway; the oldest are dropped first. */
const MAX_ENTRIES = 2_000;
/** While the registry is unavailable it is asked again after this time. */
const RETRY_AFTER_MS = 1_000;

/**
 * Toolsets as callers use them: which one a request uses, and which tools its calls name. Caches versions for at most `ttlMs`, reads them
 * again after a change of toolsets or definitions, and serves older ones while the registry is unavailable. Not used for calls without a
 * toolset.
 */
export class Toolsets {
  readonly #entries = new Map<string, CachedView>();
  readonly #reading = new Pending<ToolsetView>();
  #generation = 0;

  constructor(
    private readonly source: ToolsetSource,
    private readonly definitions: Pick<DefinitionCache, 'get'>,
    private readonly clock: Clock,
    private readonly ttlMs: number,
  ) {}

  /** Treats everything as outdated. */
  invalidate(): void {
    this.#generation += 1;
    this.#reading.clear();
  }

  /**
   * The caller with the toolset that its request uses: the requested one, or the one its credential is bound to. The
   * version is fixed, so that everything the request does uses the same one.
   * @param requested `name` or `name@version`
   * @throws ToolError REQUEST_INVALID; NOT_FOUND; PERMISSION_DENIED when the credential is bound to another toolset
   */
  select(principal: Principal, requested: string | undefined): Principal | Promise<Principal> {
    if (requested === undefined && !principal.toolset) return principal;
    return this.#select(principal, requested);
  }

  async #select(principal: Principal, requested: string | undefined): Promise<Principal> {
    const wanted = requested === undefined ? undefined : readToolsetRef(requested);
    const { toolset: bound } = principal;
    if (bound && wanted && !isSame(bound, wanted)) {
      throw new ToolError('PERMISSION_DENIED', {
        message: `This credential is bound to toolset '${toText(bound)}' and may not use '${toText(wanted)}'`,
        details: { toolset: toText(bound) },
      });
    }
    const ref = bound ?? wanted;
    if (!ref) return principal;
    const view = await this.view(principal.tenantId, ref);
    return { ...principal, toolset: { ...ref, version: view.version } };
  }

  /** The toolset that a tenant's reference names. @throws ToolError NOT_FOUND */
  async view(tenantId: string, { name, version }: ToolsetRef): Promise<ToolsetView> {
    const key = toKey(tenantId, name, version);
    const known = this.#entries.get(key);
    if (known && this.#isFresh(known)) return known.view;
    const reading = this.#reading.once(key, () => this.#read(key, tenantId, name, version));
    return reading.catch((error: unknown) => {
      if (!known || toToolError(error).code === 'NOT_FOUND') throw error;
      known.readAt = this.clock.monotonic() - this.ttlMs + RETRY_AFTER_MS;
      known.generation = this.#generation;
      return known.view;
    });
  }

  async #read(key: string, tenantId: string, name: string, version: number | undefined): Promise<ToolsetView> {
    const generation = this.#generation;
    const served = await this.source.getToolset(tenantId, name, version);
    const known = this.#entries.get(key);
    this.#entries.delete(key);
    if (!served) throw noToolset({ name, version });
    // The same object as long as nothing changed: lists are cached by it.
    const isSameAsKnown = known && JSON.stringify(known.view.served) === JSON.stringify(served);
    const view = isSameAsKnown ? known.view : new ToolsetView(served);
    // The latest version is about to be used by its number.
    for (const id of new Set([key, toKey(tenantId, name, served.version)])) {
      this.#entries.delete(id);
      if (this.#entries.size >= MAX_ENTRIES) this.#entries.delete(this.#entries.keys().next().value as string);
      this.#entries.set(id, { view, readAt: this.clock.monotonic(), generation });
    }
    return view;
  }

  #isFresh({ readAt, generation }: CachedView): boolean {
    return generation === this.#generation && this.clock.monotonic() - readAt < this.ttlMs;
  }

  /**
   * The tool behind a name in the toolset of a caller.
   * @returns its original definition, and how the toolset shows it
   * @throws ToolError TOOL_NOT_FOUND when the toolset does not have it; TOOL_QUARANTINED when its override awaits an approval
   */
  async find(
    { tenantId, toolset }: Principal & { toolset: ToolsetRef },
    shown: string,
  ): Promise<{ tool: RegisteredTool; view: ToolsetView }> {
    const view = await this.view(tenantId, toolset);
    const tool = await this.definitions.get(view.originalName(shown), tenantId);
    if (!tool || !view.has(tool, shown) || (toolset.tools && !toolAllowed(toolset.tools, shown))) {
      const message = `Tool '${shown}' not found in toolset '${view.name}'`;
      throw new ToolError('TOOL_NOT_FOUND', { message, details: { tool: shown, toolset: view.name } });
    }
    const refusal = view.findRefusal(tool);
    if (refusal) throw refusal;
    return { tool, view };
  }

  /**
   * The request with the original name of its tool and the view of the toolset. A request that already has a view is checked again.
   * @throws ToolError as `find`
   */
  async resolve(request: CallRequest): Promise<CallRequest> {
    const { principal, target } = request;
    if (!hasToolset(principal)) return request;
    const { tool, view } = await this.find(principal, target.view?.shownName ?? target.toolName);
    return { ...request, target: { ...target, toolName: tool.name, view: view.viewOf(tool) } };
  }
}

/** Whether a caller uses a toolset. */
export function hasToolset(principal: Principal): principal is Principal & { toolset: ToolsetRef } {
  return principal.toolset !== undefined;
}

/** Reads `name` or `name@version`. @throws ToolError REQUEST_INVALID */
export function readToolsetRef(text: string): ToolsetRef {
  const ref = parseToolsetRef(text);
  if (ref) return ref;
  throw new ToolError('REQUEST_INVALID', {
    message: `toolset must be a name of letters, digits, "_" and "-", with @<version> for one version, not '${text.slice(0, 100)}'`,
    details: { fields: ['toolset'] },
  });
}

const toKey = (tenantId: string, name: string, version: number | undefined): string =>
  JSON.stringify([tenantId, name, version ?? null]);

const toText = ({ name, version }: ToolsetRef): string => (version === undefined ? name : `${name}@${version}`);

/** Whether a request for `wanted` stays within the toolset that a credential is bound to. */
function isSame(bound: ToolsetRef, wanted: ToolsetRef): boolean {
  return bound.name === wanted.name && (wanted.version === undefined || wanted.version === bound.version);
}

function noToolset(ref: ToolsetRef): ToolError {
  return new ToolError('NOT_FOUND', { message: `No toolset '${toText(ref)}'`, details: { toolset: toText(ref) } });
}
