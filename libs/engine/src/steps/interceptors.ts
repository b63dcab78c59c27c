import { isDeepStrictEqual } from 'node:util';
import {
  ENGINE_METADATA,
  isJsonObject,
  isToolError,
  succeeded,
  ToolError,
  type CallResult,
  type JsonObject,
} from '@toolfleet/contracts';
import { SIZES } from '@toolfleet/contracts/subjects';
import { AbortSource, TimedOut, withTimeout } from '@toolfleet/resilience';
import { explainErrors } from '@toolfleet/bounded-schema';
import { withArguments } from '../admit.js';
import type { Call } from '../call.js';
import { actingUserId } from '../call-identity.js';
import type {
  GoOn,
  InterceptedAnswer,
  InterceptedCall,
  Interception,
  Interceptor,
  InterceptorPlace,
  InterceptorVerdict,
} from '../interceptor.js';
import type { EnginePorts } from '../ports.js';
import { explainFailure, failed, isRefusal } from '../result.js';
import { step, type Next, type Step } from '../step.js';
import { outputSchemaOf } from '../tool-plan.js';
import { showValue } from './select.js';

type Ports = Pick<EnginePorts, 'interceptors' | 'policy' | 'costlyArguments' | 'settings' | 'clock' | 'meter'>;
type Did = Interception['did'];

/** The surroundings of the interceptors of a place. */
interface Stand {
  ports: Ports;
  at: InterceptorPlace;
  /** The answer exists already, whatever its interceptors do: a replay, or what another interceptor made of an answer. */
  exists?: boolean;
}

const MAX_REASON_CHARS = 500;
/** Reason of the signal of an interceptor whose call is over. One for all: an `AbortError` of its own costs as much as half an engine. */
const OVER = new Error('The call of the interceptor is over');
/** Names of the engine in metadata that interceptors may add. */
const MARKS = ['untrusted', 'disclaimer'];

/**
 * Runs the interceptors of a place. A refusal of an attempt is a failed attempt, so that budget and journal settle the ones before it.
 * @throws ToolError POLICY_DENIED; of arguments that are changed at `call` as `withArguments`
 */
export function interceptors(ports: Ports, at: InterceptorPlace): Step {
  const here = ports.interceptors.filter((one) => one.at.includes(at));
  const name = `${at} interceptors`;
  return here.length === 0 ? step(name) : step(name, (next) => chain(here, { ports, at }, next));
}

/** Passes replays through the interceptors inside of it: the journal has outcomes as executors stored them. */
export function replayInterceptors(ports: Ports): Step {
  const here = ports.interceptors.filter(({ at }) => at.some((place) => place !== 'call'));
  if (here.length === 0) return step('replay interceptors');
  return step('replay interceptors', (next) => async (call) => {
    const result = await next(call);
    if (result.replayOf === undefined) return result;
    return chain(here, { ports, at: 'result', exists: true }, async () => result)(call);
  });
}

/** The interceptors that watch a call, around `end`. */
function chain(watching: readonly Interceptor[], stand: Stand, end: Next): Next {
  return watching.reduceRight<Next>(
    (inner, one) => (call) =>
      one.watches(call.tool, call.request.target.view?.toolset.name) ? around(one, stand, call, inner) : inner(call),
    end,
  );
}

/** An interceptor called `next`. */
class GoingOn {
  constructor(readonly args: JsonObject | undefined) {}
}

/**
 * One interceptor around `inner`, which runs whatever the interceptor does, unless it refuses the call: an answer without going on takes
 * the place of the tool, and all steps inside see the call, charge it and record it.
 */
async function around(one: Interceptor, stand: Stand, call: Call, inner: Next): Promise<CallResult> {
  const { at, exists = false } = stand;
  const goesOn = Promise.withResolvers<GoingOn>();
  const answer = Promise.withResolvers<InterceptedAnswer>();
  answer.promise.catch(() => {}); // an interceptor need not wait for it
  const over = new AbortSource();
  let mayGoOn = true;
  const next: GoOn = async ({ arguments: args } = {}) => {
    if (!mayGoOn) throw new Error('next may be called once, and not when the interceptor is late');
    if (args && (at !== 'call' || !isJsonObject(args))) throw new Error('arguments can be changed at call only');
    mayGoOn = false;
    goesOn.resolve(new GoingOn(args && structuredClone(args)));
    return answer.promise;
  };
  const own = (async () => toVerdict(await one.intercept(toInterceptedCall(call, at), next, over.signal)))();
  try {
    const first = await inTime(one, stand, call, Promise.race([own, goesOn.promise]), exists ? undefined : call.signal);
    mayGoOn = false;
    const hasGone = first instanceof GoingOn;
    if (!hasGone && !exists) {
      if (first && 'deny' in first) return refuse(one, stand, call, first.deny);
      return await inner(first && !isPreview(call) ? answered(one, stand, call, first) : call);
    }
    const args = hasGone ? first.args : undefined;
    const result = await inner(args ? await changed(one, stand, call, args) : call).catch((error: unknown) => {
      answer.reject(error);
      throw error;
    });
    const { failure, replayOf } = result;
    // A refusal by the fleet has nothing of the tool.
    const isRefused = failure !== undefined && isRefusal(failure);
    if (isRefused) answer.reject(new ToolError(failure.code, { message: failure.message }));
    answer.resolve(toAnswer(result));
    // A replay passes its interceptors in the step for replays.
    if (isRefused || isPreview(call) || (!exists && at !== 'call' && replayOf !== undefined)) return result;
    // To the end also for a call that was cancelled: its usage must be settled.
    const verdict = hasGone ? await inTime(one, stand, call, own) : first;
    const shown = await concluded(one, stand, call, result, verdict ?? {});
    return args ? marked(shown, one, 'changed_arguments') : shown;
  } finally {
    mayGoOn = false;
    over.abort(OVER);
  }
}

/** The decision of the interceptor, within its time. When it fails or is late: undefined if it fails open, else a refusal. */
async function inTime<T>(
  one: Interceptor,
  { ports }: Stand,
  call: Call,
  work: Promise<T | InterceptorVerdict>,
  signal?: AbortSignal,
): Promise<T | InterceptorVerdict | undefined> {
  try {
    const verdict = await withTimeout(ports.clock, one.timeoutMs, work, signal);
    if (isDenial(verdict)) note(ports, one, call, 'refused');
    return verdict;
  } catch (error) {
    signal?.throwIfAborted();
    note(ports, one, call, one.failsOpen ? 'failed_open' : 'failed_closed');
    if (one.failsOpen) return undefined;
    const why = error instanceof TimedOut ? `it did not answer within ${one.timeoutMs} ms` : 'it failed';
    return { deny: isToolError(error) ? `${why} with ${error.code}` : why };
  }
}

const isDenial = (verdict: unknown): boolean => typeof verdict === 'object' && verdict !== null && 'deny' in verdict;

/** Nothing runs: only refusals and arguments count. */
const isPreview = ({ active: { request } }: Call): boolean =>
  request.mode.kind === 'dry' || request.mode.kind === 'admit';

/** The call with the arguments that an interceptor set. @throws ToolError POLICY_DENIED for invalid ones, and as `withArguments` */
async function changed(one: Interceptor, { ports }: Stand, call: Call, args: JsonObject): Promise<Call> {
  note(ports, one, call, 'changed_arguments');
  try {
    return await withArguments(ports, call, args);
  } catch (error) {
    if (!isToolError(error) || error.code !== 'ARGUMENTS_INVALID') throw error;
    throw denial('POLICY_DENIED', one, call, `it changed the arguments to invalid ones: ${error.message}`);
  }
}

/** The call with an answer in place of its tool. An answer that is not a valid result of the tool refuses the call. */
function answered(one: Interceptor, stand: Stand, call: Call, verdict: InterceptorVerdict): Call {
  const { active, request } = call;
  // An interceptor further out has answered.
  if (active.answer) return call;
  const { output = null, text = showValue(output), content, metadata = {} } = verdict as Partial<InterceptedAnswer>;
  const given = succeeded({ output, text, content, metadata: mergedMetadata(metadata), attempts: 1 });
  const fault = faultOf(call, stand, undefined, given);
  if (fault !== undefined) throw denial('POLICY_DENIED', one, call, fault);
  note(stand.ports, one, call, 'answered');
  active.answer = marked(given, one, 'answered');
  if (stand.at !== 'call') return call;
  // Not a result that later calls may reuse, or that an earlier one has.
  active.request = { ...request, reuse: { ...request.reuse, cache: 'no-store' } };
  return { ...call, request: active.request };
}

/** The result with the parts that an interceptor changed. A change to an invalid result of the tool withholds it. */
async function concluded(
  one: Interceptor,
  stand: Stand,
  call: Call,
  result: CallResult,
  verdict: InterceptorVerdict,
): Promise<CallResult> {
  if ('deny' in verdict) return withheld(one, call, verdict.deny, result);
  const given = toAnswer(result);
  const names = (Object.keys(verdict) as (keyof InterceptedAnswer)[]).filter(
    (name) => name !== 'success' && verdict[name] !== undefined && !isDeepStrictEqual(verdict[name], given[name]),
  );
  if (names.length === 0) return result;
  const { output, text, content, metadata, error } = { ...given, ...verdict };
  const isTrusted = one.inspectsChanges === true;
  const after: CallResult = {
    ...result,
    output,
    text,
    content,
    metadata: isTrusted ? metadata : mergedMetadata(metadata, result.metadata),
  };
  if (after.failure && error) after.failure = { ...after.failure, message: error.message, details: error.details };
  const fault = faultOf(call, stand, result, after);
  if (fault !== undefined) {
    note(stand.ports, one, call, 'failed_closed');
    return withheld(one, call, fault, result);
  }
  note(stand.ports, one, call, 'changed_answer');
  const shown = marked(after, one, 'changed_answer');
  if (isTrusted) return shown;
  const inspectors = stand.ports.interceptors.filter(({ inspectsChanges }) => inspectsChanges);
  return chain(inspectors, { ...stand, at: 'result', exists: true }, async () => shown)(call);
}

/** Why an answer cannot stand for a result of the tool. @param before the result that it replaces; faults of its own do not count */
function faultOf(
  { tool, request }: Call,
  { at }: Stand,
  before: CallResult | undefined,
  after: CallResult,
): string | undefined {
  const { inlineBytes = Infinity } = at === 'call' ? request.limits : {};
  const limit = Math.min(SIZES.toolResult, inlineBytes);
  const bytes = sizeOf(after);
  if (bytes > limit && (!before || bytes > sizeOf(before)))
    return `its answer has ${bytes} bytes, and at most ${limit} are allowed`;
  const schema = outputSchemaOf(tool);
  const wasValid = !before || (before.output !== after.output && schema?.check(before.output) === true);
  if (!schema || !wasValid || schema.check(after.output)) return undefined;
  const [mismatch] = explainErrors(schema.errors(after.output));
  return `its answer does not match the output schema: ${mismatch?.path ?? ''} ${mismatch?.message ?? ''}`;
}

const sizeOf = ({ output, text, content, metadata }: CallResult): number =>
  Buffer.byteLength(JSON.stringify([output, text, content, metadata]));

/** Throws, or for an attempt returns, the refusal of a call. After an attempt it withholds the results of the attempts before it. */
function refuse(one: Interceptor, { at }: Stand, call: Call, why: string): CallResult {
  const isLater = at === 'attempt' && call.active.attempts > 0;
  const error = denial(isLater ? 'RESULT_WITHHELD' : 'POLICY_DENIED', one, call, why);
  if (at === 'attempt') return failed(error);
  throw error;
}

/** The rest of a withheld result: that it ran, its usage and time, and the facts that decide the charge. */
function withheld(one: Interceptor, call: Call, why: string, result: CallResult): CallResult {
  const { usage, timing, attempts, replayOf, failure } = result;
  const { message, details } = denial('RESULT_WITHHELD', one, call, why);
  // Whether an effect happened is not the interceptor's to hide.
  const code = failure?.code === 'OUTCOME_UNKNOWN' ? 'OUTCOME_UNKNOWN' : 'RESULT_WITHHELD';
  const error = new ToolError(code, { message, details, facts: failure?.facts });
  return explainFailure(call.tool.name, failed(error, { usage, timing, attempts, replayOf }));
}

type DenialCode = 'POLICY_DENIED' | 'RESULT_WITHHELD';

function denial(code: DenialCode, { name }: Interceptor, { tool }: Call, why: string): ToolError {
  const what = code === 'POLICY_DENIED' ? 'refuses' : 'withholds the result of';
  const message = `Interceptor '${name}' ${what} '${tool.name}': ${why}`;
  return new ToolError(code, { message, details: { interceptor: name, reasons: [why] } });
}

/** Counts an intervention and notes it for the record of the call. */
function note({ meter }: Ports, { name }: Interceptor, { active }: Call, did: Did): void {
  const interception: Interception = { interceptor: name, did };
  meter.intercepted(interception);
  active.interceptions = [...(active.interceptions ?? []), interception];
}

/** The result with the intervention in its metadata. */
function marked<R extends CallResult>(result: R, { name }: Interceptor, did: Did): R {
  const { metadata } = result;
  const { interceptors: before } = metadata;
  const all = [...(Array.isArray(before) ? before : []), { interceptor: name, did }];
  return { ...result, metadata: { ...metadata, interceptors: all } };
}

/** The names in metadata that interceptors decide, and the engine's own. */
function mergedMetadata(own: JsonObject, ofEngine: JsonObject = {}): JsonObject {
  const isOfEngine = ([name]: [string, unknown]): boolean => ENGINE_METADATA.includes(name);
  return Object.fromEntries([
    ...Object.entries(own).filter((entry) => !isOfEngine(entry) || MARKS.includes(entry[0])),
    ...Object.entries(ofEngine).filter(isOfEngine),
  ]);
}

function toInterceptedCall(call: Call, at: InterceptorPlace): InterceptedCall {
  const { callId, request, tool, arguments: args, attempt } = call;
  const { kind } = request.mode;
  return {
    at,
    mode: kind === 'dry' || kind === 'admit' ? kind : 'run',
    call_id: callId,
    tenant_id: request.principal.tenantId,
    user_id: actingUserId(request),
    entry_point: request.entryPoint,
    tool: tool.name,
    category: tool.category,
    source: { kind: tool.source.kind, name: tool.source.name },
    toolset: request.target.view?.toolset.name,
    arguments: structuredClone(args),
    attempt,
  };
}

function toAnswer({ ok, output, text, content, metadata, failure }: CallResult): InterceptedAnswer {
  const error = failure && { message: failure.message, details: failure.details };
  return { success: ok, output, text, content, metadata, error };
}

/** @throws Error for anything else than a verdict: code that returns `false` must not let a call pass */
function toVerdict(given: unknown): InterceptorVerdict {
  if (!isJsonObject(given)) throw new Error('an interceptor must return an answer or { deny }');
  if (typeof given.deny === 'string') return { deny: given.deny.slice(0, MAX_REASON_CHARS) };
  const { success: _success, output: _output, text, content, metadata, error, ...others } = given;
  const isOk =
    Object.keys(others).length === 0 &&
    (text === undefined || typeof text === 'string') &&
    (content === undefined || (Array.isArray(content) && content.every(isJsonObject))) &&
    (metadata === undefined || isJsonObject(metadata)) &&
    (error === undefined || (isJsonObject(error) && typeof error.message === 'string'));
  if (!isOk) throw new Error('the answer has a part of the wrong type');
  return given as InterceptorVerdict;
}
