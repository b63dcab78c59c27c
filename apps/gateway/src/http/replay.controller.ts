import { Controller, Req, Res } from '@nestjs/common';
import { isToolError, ToolError, type CallBody, type JsonObject, type Principal } from '@toolfleet/contracts';
import type { StoredCall } from '@toolfleet/contracts/records';
import type { KeptBody, RouteAnswer, RouteInput, TriedCall } from '@toolfleet/contracts/resources';
import { callsTools, type RegisteredTool } from '@toolfleet/contracts/tool-definition';
import { EVERY_TENANT, requireRight } from '@toolfleet/access';
import { DefinitionCache, originalOf, ToolList } from '@toolfleet/catalog';
import { hasEffects } from '@toolfleet/engine';
import { DEFAULT_RETENTION } from '@toolfleet/journal';
import { CallBodyReader, CallFeed, jsonChanges, REDACTED } from '@toolfleet/records';
import { Clock } from '@toolfleet/resilience';
import { NatsClient } from '@toolfleet/transport';
import type { FastifyReply } from 'fastify';
import { ToolCalls } from '../calls/tool-calls.js';
import { Caller } from '../server/guards.js';
import { Input, Serves } from '../server/routes.js';
import { HttpCalls, type HttpRequest } from './http-call.js';

type Replayed = RouteAnswer<'POST /api/v1/calls/{id}/replay'>;
type ReplayBody = RouteInput<'POST /api/v1/calls/{id}/replay'>['body'];

/** What may not be repeated, as `details.reason` names it. */
type Reason =
  | 'arguments_not_kept'
  | 'other_tenant'
  | 'other_toolset'
  | 'has_effects'
  | 'not_own'
  | 'effect_happened'
  | 'outcome_unknown'
  | 'too_old'
  | 'unknown_revision'
  | 'unknown_tool';

/** So long an idempotency key proves that a call was not repeated before; less a minute for the time that the replay takes. */
const REPEATABLE_MS = DEFAULT_RETENTION.keyedMs - 60_000;

/** Calls that a definition is tried with by default, and of which so many are looked through for arguments that are kept. */
const DEFAULT_TRIED = 5;
const MAX_LOOKED_THROUGH = 200;

/** Runs a finished call again, with the arguments that are kept of it, for the caller of the replay and at its cost. */
@Controller()
export class ReplayController {
  constructor(
    private readonly feed: CallFeed,
    private readonly bodies: CallBodyReader,
    private readonly definitions: DefinitionCache,
    private readonly list: ToolList,
    private readonly calls: ToolCalls,
    private readonly http: HttpCalls,
    private readonly clock: Clock,
    private readonly nats: NatsClient,
  ) {}

  /** @throws ToolError NOT_FOUND, PERMISSION_DENIED as for reading its body; REQUEST_INVALID with a reason; as for a call */
  @Serves('POST /api/v1/calls/{id}/replay')
  replay(
    @Caller() caller: Principal,
    @Input() { path: { id }, body: wanted }: RouteInput<'POST /api/v1/calls/{id}/replay'>,
    @Req() request: HttpRequest,
    @Res({ passthrough: true }) reply: FastifyReply,
  ): Promise<Replayed> {
    return this.#replay(caller, id, wanted, request, reply);
  }

  /**
   * Tries a definition that awaits an approval with the last calls of its tool: successful ones, without effects, with arguments and
   * results the caller may read.
   * @throws ToolError NOT_FOUND
   */
  @Serves('POST /api/v1/quarantine/{name}/replay')
  async tryPending(
    @Caller() caller: Principal,
    @Input() { path, body }: RouteInput<'POST /api/v1/quarantine/{name}/replay'>,
    @Req() request: HttpRequest,
    @Res({ passthrough: true }) reply: FastifyReply,
  ) {
    const own = `${caller.tenantId}/`;
    const name = path.name.startsWith(own) ? path.name.slice(own.length) : path.name;
    const { pending_revision: revision, calls: limit = DEFAULT_TRIED } = body;
    const pending = name.includes('/') ? undefined : await this.#pending(caller, name, revision);
    if (!pending)
      throw new ToolError('NOT_FOUND', {
        message: `No definition of '${path.name}' with revision ${revision} awaits approval in tenant ${caller.tenantId}`,
      });
    const query = { tenant_id: caller.tenantId, tool: name, status: ['success' as const], limit: MAX_LOOKED_THROUGH };
    const { calls } = await this.feed.read(caller, query);
    const replays: TriedCall[] = [];
    for (const origin of calls.toReversed()) {
      if (replays.length === limit) break;
      const access = origin.replay_of === undefined ? await this.bodies.access(caller, origin) : 'denied';
      if (access === 'denied' || access === 'not_kept') continue;
      const ended_at = new Date(origin.ended_at).toISOString();
      const tried = this.#replay(caller, origin.call_id, { mode: 'dry', revision }, request, reply);
      replays.push({ replay_of: origin.call_id, ended_at, ...(await tried.then(toTried, toRefusal)) });
    }
    return {
      tool: name,
      pending_revision: revision,
      replays,
      note:
        replays.length > 0
          ? undefined
          : `No call of tenant ${caller.tenantId} succeeded whose arguments and result are kept and that you may read`,
    };
  }

  #replay(
    caller: Principal,
    id: string,
    wanted: ReplayBody,
    request: HttpRequest,
    reply: FastifyReply,
  ): Promise<Replayed> {
    return this.http.traced(request, async () => {
      const call = await this.feed.one(caller, id);
      if (call.tenant_id !== caller.tenantId)
        refuse(
          'other_tenant',
          `Call '${id}' is of tenant ${call.tenant_id}; only a credential of that tenant repeats it`,
        );
      if (call.source === undefined)
        refuse('unknown_tool', `Call '${id}' named a tool that was not found, and its name is not recorded`);
      const { body } = await this.bodies.read(caller, call);
      const args = wholeArguments(id, body);
      const current = await this.definitions.get(call.tool, caller.tenantId);
      const tool = await this.#definition(caller, call, current, wanted);
      // Effects that a changed definition declares are not approved.
      for (const one of new Set([current, tool]))
        if (one && (hasEffects(one) || callsTools(one))) await this.#checkEffects(caller, call, one, wanted);
      const name = await this.#shownName(caller, call);
      const isDry = wanted.mode === 'dry';
      const made = this.http.toCallRequest(request, reply, name, args, {
        // A result that is there already would answer for the tool.
        cache: isDry ? 'no-store' : 'reload',
        timeout_ms: wanted.timeout_ms,
        idempotency_key: `replay-of-${id}`,
      });
      const { body: result } = await this.calls.run({
        ...made,
        target: tool && tool !== current ? { ...made.target, definition: tool } : made.target,
        reuse: { ...made.reuse, keyForEffects: true, repeats: id },
      });
      return {
        call_id: result.call_id,
        replay_of: id,
        mode: wanted.mode,
        tool: call.tool,
        revision: { before: call.revision, now: tool?.revision },
        result,
        ...(isDry && compared(body, result)),
      };
    });
  }

  /**
   * The definition to run: the one in effect, or the one that awaits an approval in its place. Others are not kept.
   * @throws ToolError REQUEST_INVALID, PERMISSION_DENIED
   */
  async #definition(
    caller: Principal,
    { tool: name, toolset }: StoredCall,
    current: RegisteredTool | null,
    { mode, revision }: ReplayBody,
  ): Promise<RegisteredTool | null> {
    if (revision === undefined || revision === current?.revision) return current;
    const pending = await this.#pending(caller, name, revision);
    if (!pending) {
      const known = [current && `${current.revision} (in effect)`, current?.quarantine?.pending_revision];
      refuse(
        'unknown_revision',
        `Tool '${name}' has no revision ${revision}; it has ${known.filter(Boolean).join(' and ') || 'none'}. Older ones are not kept`,
      );
    }
    if (mode !== 'dry') refuse('unknown_revision', 'A definition that awaits an approval only runs dry');
    if (toolset !== undefined)
      refuse('other_toolset', `The call was made through toolset ${toolset}, which shows approved definitions only`);
    return pending;
  }

  /** The definition with this revision that awaits an approval by the caller. @throws ToolError PERMISSION_DENIED */
  async #pending(caller: Principal, name: string, revision: string): Promise<RegisteredTool | undefined> {
    const asked = { name, tenant_id: caller.tenantId, pending_revision: revision };
    const { tool } = await this.nats.ask('registry.definition.get', asked);
    if (!tool) return undefined;
    requireRight(caller, 'approve_tools', `Trying a changed definition of ${name}`, tool.tenant ?? EVERY_TENANT);
    return tool;
  }

  /** The name by which the caller's toolset shows the tool of a call. @throws ToolError REQUEST_INVALID for another toolset than the call's */
  async #shownName(caller: Principal, { tool, toolset }: StoredCall): Promise<string> {
    const own = caller.toolset?.name;
    if (toolset?.split('@')[0] !== own)
      refuse(
        'other_toolset',
        toolset === undefined
          ? `The call was made without a toolset, and this request has ${own}; send it without one`
          : `The call was made through toolset ${toolset}; repeat the request with X-Toolset: ${toolset}`,
      );
    if (own === undefined) return tool;
    const { tools } = await this.list.all(caller);
    return tools.find((shown) => originalOf(shown).name === tool)?.name ?? tool;
  }

  /**
   * A call of a tool with effects never runs dry, and not again if its effect happened. An idempotency key of a user proves that it was
   * not repeated before.
   * @throws ToolError REQUEST_INVALID
   */
  async #checkEffects(
    caller: Principal,
    call: StoredCall,
    definition: RegisteredTool,
    { mode, include_unknown: includesUnknown }: ReplayBody,
  ): Promise<void> {
    if (mode === 'dry')
      refuse(
        'has_effects',
        `Tool '${call.tool}' has effects, so it does not run dry; mode "run" runs it (fleetctl: --for-real)`,
      );
    if ((await this.bodies.access(caller, call)) !== 'own')
      refuse(
        'not_own',
        `Tool '${call.tool}' has effects: only the key or user that made call '${call.call_id}' repeats it`,
      );
    const { transport, tool: outcome } = call.outcomes;
    if (call.status === 'success' || outcome === 'ok')
      refuse('effect_happened', `Call '${call.call_id}' succeeded, and its tool has effects; it is not repeated`);
    // The calls that a program made have effects of which its own outcome says nothing.
    const isUnknown = transport === 'unknown' || (callsTools(definition) && transport !== 'not_sent');
    if (isUnknown && !includesUnknown)
      refuse(
        'outcome_unknown',
        `It is not known whether call '${call.call_id}' had its effect; look at the target, then send include_unknown`,
      );
    if (this.clock.now() - call.ended_at > REPEATABLE_MS)
      refuse(
        'too_old',
        `Call '${call.call_id}' ended more than 24 hours ago, and may have been repeated since; call the tool instead`,
      );
  }
}

/** @throws ToolError REQUEST_INVALID unless all arguments of the call are kept as they were */
function wholeArguments(id: string, { arguments: args, cut, redacted }: KeptBody): JsonObject {
  const missing = cut?.includes('arguments')
    ? 'too large to be kept'
    : redacted?.includes('arguments')
      ? 'redacted'
      : undefined;
  if (args && !missing) return args;
  return refuse(
    'arguments_not_kept',
    `Arguments of call '${id}' were ${missing ?? 'not kept'}; call the tool with all of them instead`,
  );
}

/** How the result differs from the kept one, or why that is not known. */
function compared(kept: KeptBody, now: CallBody): Pick<Replayed, 'changes' | 'not_compared'> {
  if (!kept.result || kept.errors) return { not_compared: 'The call failed' };
  if (kept.cut?.includes('result')) return { not_compared: 'The result of the call was too large to be kept whole' };
  if (!now.success) return { not_compared: 'The replay failed' };
  const { output, text } = kept.result;
  const [before, after] = output === undefined ? [text ?? '', now.text] : [output, now.output];
  return { changes: jsonChanges(before, after, (value) => value === REDACTED) };
}

const toTried = ({
  call_id,
  changes,
  not_compared,
}: Replayed): Pick<TriedCall, 'call_id' | 'changes' | 'not_compared'> => ({
  call_id,
  changes,
  not_compared,
});

/** One call that cannot be tried does not keep the others from it. */
function toRefusal(error: unknown): { not_compared: string } {
  if (isToolError(error)) return { not_compared: error.message };
  throw error;
}

function refuse(reason: Reason, message: string): never {
  throw new ToolError('REQUEST_INVALID', { message, details: { reason } });
}
