import {
  succeeded,
  ToolError,
  toUsd,
  type CallResult,
  type EffectGate,
  type JsonObject,
  type Origin,
  type PlannedEffect,
  type Principal,
} from '@toolfleet/contracts';
import { callsTools, type RegisteredTool } from '@toolfleet/contracts/tool-definition';
import type { ToolView } from '@toolfleet/contracts/toolset';
import { type ArgumentFault, type ReadArguments, toParameterName } from '@toolfleet/bounded-schema';
import { hasRequiredRole, isAuthenticated, mayUse } from './access.js';
import { openQuestions, requireApproval } from './approval.js';
import { buildCall, type ActiveCall, type Call, type ResolvedCall, type TimedCall } from './call.js';
import type { EnginePorts, PolicyPort, PolicyResult, ResolvedTool } from './ports.js';
import { step, type Next, type Step } from './step.js';
import { budgetScopes, payer } from './steps/budget.js';
import { readSelection } from './steps/select.js';
import { rateKey, ToolPlans } from './tool-plan.js';

/** Clients match this message. */
const DANGEROUS_MESSAGE = 'Tool not available via direct execution';

/** Finds the tool of a call. @throws ToolError TOOL_NOT_FOUND, and as the catalogue */
export function resolve(ports: Pick<EnginePorts, 'catalog' | 'settings'>): Step<TimedCall, ResolvedCall> {
  const plans = new ToolPlans(ports.settings);
  return step('resolve', (next) => (call) => {
    const { active } = call;
    const { target, principal, mode } = active.request;
    const { toolName, view, definition } = target;
    const refusal = mode.kind === 'refused' ? mode.reason : undefined;
    const lookUp = () =>
      definition ? { tool: definition } : ports.catalog.resolve(view?.shownName ?? toolName, principal);
    const found = refusal ? knownTool(lookUp) : lookUp();
    const go = (resolved: ResolvedTool | undefined): Promise<CallResult> => {
      if (!resolved) return refuse(refusal ?? ports.catalog.notFound(toolName, principal));
      const { tool } = resolved;
      active.tool = tool;
      // After the look-up, so that records of the refused call name its tool.
      if (refusal) throw refusal;
      if (resolved.view)
        active.request = { ...active.request, target: { ...target, toolName: tool.name, view: resolved.view } };
      return next({ active, signal: call.signal, deadline: call.deadline, tool, plan: plans.get(tool) });
    };
    return found instanceof Promise ? found.then(go) : go(found);
  });
}

/** The tool of a call that is refused anyway. The reason of the refusal counts, also while the catalogue is unavailable. */
async function knownTool(
  lookUp: () => ReturnType<EnginePorts['catalog']['resolve']>,
): Promise<ResolvedTool | undefined> {
  try {
    return await lookUp();
  } catch {
    return undefined;
  }
}

async function refuse(error: unknown): Promise<never> {
  throw await error;
}

/** Checks the definition's requirements on callers. @throws ToolError as `authorize` */
export function permission(): Step<ResolvedCall> {
  return step('authorize', (next) => (call) => {
    const { principal, origin } = call.active.request;
    authorize(principal, origin, call.tool);
    return next(call);
  });
}

/**
 * Reads arguments and selection.
 * @throws ToolError ARGUMENTS_INVALID, REQUEST_INVALID, TOOL_DANGEROUS, and as `CostlyArguments`
 */
export function readArguments(ports: Pick<EnginePorts, 'settings' | 'costlyArguments'>): Step<ResolvedCall, Call> {
  return step('arguments', (next) => (call) => {
    const { active, tool, plan } = call;
    const { input, target, origin } = active.request;
    const go = (read: ReadArguments) => {
      const args = acceptArguments(read, tool, active);
      const selection = readSelection(plan, active.request);
      authorizeArguments(origin, tool, args);
      return next(buildCall(call, args, selection, ports.settings));
    };
    const reading = readWith(ports, call, input.rawArguments, target.view);
    return reading instanceof Promise ? reading.then(go) : go(reading);
  });
}

function readWith(
  { costlyArguments }: Pick<EnginePorts, 'costlyArguments'>,
  { active, plan: { reader }, signal }: ResolvedCall,
  raw: JsonObject,
  view?: ToolView,
): ReadArguments | Promise<ReadArguments> {
  const first = reader.read(raw, view);
  if (first.ok || !first.tooCostly) return first;
  const { schema, rules } = reader;
  const { tenantId } = active.request.principal;
  return costlyArguments.read({ schema, rules, raw, view }, { tenantId, signal });
}

/** Asks the policy about the coerced arguments. @throws ToolError as `decidePolicy` */
export function askPolicy({ policy }: Pick<EnginePorts, 'policy'>): Step {
  return step('policy', (next) => (call) => {
    const undecided = decidePolicy(policy, call.active, call.tool, call.arguments);
    const go = () => next(call);
    return undecided instanceof Promise ? undecided.then(go) : go();
  });
}

/**
 * The call with other arguments, which pass what its own have passed: toolset, schema, dangerous values and policy. Its identity
 * and with it the fingerprint of approvals and idempotency keys is that of the new arguments.
 * @throws ToolError ARGUMENTS_INVALID, TOOL_DANGEROUS, and as `decidePolicy` and `CostlyArguments`
 */
export async function withArguments(
  ports: Pick<EnginePorts, 'settings' | 'costlyArguments' | 'policy'>,
  call: Call,
  raw: JsonObject,
): Promise<Call> {
  const { active, tool, request } = call;
  const { view } = request.target;
  // What a toolset hides, it also sets.
  const own = Object.entries(raw).filter(([name]) => !view?.arguments?.hidden.includes(name));
  const found = await readWith(ports, call, Object.fromEntries(own), view);
  if (!found.ok) throw argumentsInvalid(tool.name, found.faults);
  const { arguments: args } = found;
  authorizeArguments(request.origin, tool, args);
  await decidePolicy(ports.policy, active, tool, args);
  active.arguments = args;
  return buildCall(call, args, call.select, ports.settings);
}

/**
 * Asks people where the policy asks for them: after everything that may change the call, because they approve what runs.
 * @throws ToolError as `requireApproval`
 */
export function askPeople({ approvals }: Pick<EnginePorts, 'approvals'>): Step {
  const ask = (call: Call, next: Next): Promise<CallResult> => {
    const { asked } = call.active;
    if (!asked) return next(call);
    const { questions, rule } = openQuestions(asked, call);
    return questions.length === 0 ? next(call) : requireApproval(approvals, call, questions, rule, next);
  };
  return step('approval', (next) => (call) => {
    const { effects } = call.request;
    return effects ? meetEffect(call, effects).then((met) => ask(met, next)) : ask(call, next);
  });
}

/** Lets the plan of a program meet a call: a call with effects is quoted for the plan, or it is one of the plan and has its approval. */
async function meetEffect(call: Call, { dry, meet }: EffectGate): Promise<Call> {
  const { tool, identity, active, plan } = call;
  const { ask: questions = [], approval: rule } = active.asked ?? {};
  const isEffect = plan.hasEffects || questions.length > 0;
  const effect: PlannedEffect = {
    tool: tool.name,
    arguments: call.arguments,
    microUsd: plan.reserveMicroUsd,
    revision: tool.revision,
    fingerprint: identity.fingerprint,
    questions,
    rule,
  };
  const given = await meet(effect, isEffect);
  const isQuoted = dry && isEffect;
  const { approval } = call.request;
  active.request = isQuoted
    ? { ...call.request, mode: { kind: 'dry' } }
    : { ...call.request, approval: { asks: false, ...approval, given: given ?? approval?.given } };
  // A quote needs no approval.
  if (isQuoted) active.asked = undefined;
  return { ...call, request: active.request };
}

/** Ends the admission of a call: answers it if it asked for no more. */
export function admitted(ports: Pick<EnginePorts, 'rateLimiter' | 'budget' | 'breakers' | 'clock'>): Step {
  return step('dry run', (next) => (call) => {
    const { active, request } = call;
    active.admittedAt = ports.clock.monotonic();
    if (request.mode.kind === 'admit') return Promise.resolve(succeeded());
    return request.mode.kind === 'dry' ? answerDryRun(ports, call) : next(call);
  });
}

/**
 * Checks the definition's requirements on callers. Rules about arguments belong to the policy.
 * @throws ToolError TOOL_QUARANTINED, TOOL_DANGEROUS, PERMISSION_DENIED
 */
export function authorize(principal: Principal, origin: Origin, tool: RegisteredTool): void {
  if (tool.quarantine) throw quarantineRefusal(tool.name, tool.quarantine);
  if (tool.dangerous && origin === 'public') throw new ToolError('TOOL_DANGEROUS', { message: DANGEROUS_MESSAGE });
  // A tool that starts tools that call tools could recurse without end.
  if (principal.via === 'delegation' && callsTools(tool)) deny(`'${tool.name}' may not be started on behalf of a tool`);
  if (!mayUse(principal.tools, tool)) deny(`This credential may not call '${tool.name}'`);
  if (!hasRequiredRole(principal, tool)) {
    deny(`Tool '${tool.name}' requires role ${tool.required_roles?.join(' or ')}`);
  }
  if (tool.requires_auth && !isAuthenticated(principal)) {
    const where = principal.via === 'delegation' ? ' with the call that started this one' : '';
    deny(`Tool '${tool.name}' requires authentication: send an API key or an access token${where}`);
  }
}

/** The refusal of a tool that awaits a decision of an administrator, or that one rejected. */
export function quarantineRefusal(
  tool: string,
  { reason, rejected }: NonNullable<RegisteredTool['quarantine']>,
): ToolError {
  const state = rejected ? 'was rejected by an administrator' : 'awaits approval';
  return new ToolError('TOOL_QUARANTINED', { message: `Tool '${tool}' ${state}: ${reason}`, details: { tool } });
}

function deny(message: string): never {
  throw new ToolError('PERMISSION_DENIED', { message });
}

/**
 * Records conversions and dropped names of arguments for the metadata.
 * @throws ToolError ARGUMENTS_INVALID with every violation in `details.faults`
 */
function acceptArguments(read: ReadArguments, tool: RegisteredTool, active: ActiveCall): JsonObject {
  if (!read.ok) throw argumentsInvalid(tool.name, read.faults);
  active.coercions = read.coercions;
  active.dropped = read.dropped;
  active.arguments = read.arguments;
  return read.arguments;
}

/** The error of arguments that do not match a tool's schema, with every violation in `details.faults`. */
export function argumentsInvalid(tool: string, faults: readonly ArgumentFault[]): ToolError {
  const lines = faults.map(({ path, message }) => {
    const name = toParameterName(path);
    return name === '' || message.includes(`'${name}'`) ? message : `${name}: ${message}`;
  });
  return new ToolError('ARGUMENTS_INVALID', {
    message: `Invalid arguments for tool '${tool}': ${lines.join('; ')}`,
    details: { tool, faults: faults.map((fault) => ({ ...fault })) },
  });
}

/**
 * Checks argument values that make a call dangerous although its tool is not (`dangerous_when`). `args` are coerced and contain
 * the defaults, so an omitted argument is checked as well.
 * @throws ToolError TOOL_DANGEROUS with the argument and its value in `details`
 */
function authorizeArguments(origin: Origin, tool: RegisteredTool, args: JsonObject): void {
  if (origin !== 'public' || !tool.dangerous_when) return;
  for (const { argument, values } of tool.dangerous_when) {
    const value = args[argument];
    if (value !== undefined && values.includes(value)) {
      throw new ToolError('TOOL_DANGEROUS', { message: DANGEROUS_MESSAGE, details: { argument, value } });
    }
  }
}

const ALLOWED = { decision: 'allowed' } as const;

/**
 * Asks the policy about a call with its coerced arguments. A policy that fails denies the call. Synchronous when the policy is.
 * @throws ToolError POLICY_DENIED with the messages of the rules
 */
function decidePolicy(
  policy: PolicyPort,
  active: ActiveCall,
  tool: RegisteredTool,
  args: JsonObject,
): void | Promise<void> {
  let decision: PolicyResult | Promise<PolicyResult>;
  try {
    decision = policy.decide({ call: active, tool, arguments: args });
  } catch (error) {
    throw policyFailed(active, tool, error);
  }
  if (!(decision instanceof Promise)) return enforce(decision, active, tool);
  return decision.then(
    (decided) => enforce(decided, active, tool),
    (error: unknown) => {
      throw policyFailed(active, tool, error);
    },
  );
}

function enforce(decision: PolicyResult, active: ActiveCall, tool: RegisteredTool): void {
  const { rules } = decision;
  if (decision.allowed) {
    active.asked = decision.ask?.length ? decision : undefined;
    active.policy = active.asked ? { decision: 'asked', rules } : ALLOWED;
    return;
  }
  active.policy = { decision: 'denied', rules };
  throw new ToolError('POLICY_DENIED', {
    message: decision.reasons.join('; ') || `A policy denies '${tool.name}'`,
    details: { reasons: decision.reasons },
  });
}

function policyFailed(active: ActiveCall, tool: RegisteredTool, cause: unknown): ToolError {
  active.policy = { decision: 'denied' };
  return new ToolError('POLICY_DENIED', { message: `The policy could not be evaluated for '${tool.name}'`, cause });
}

function describePrice({ microUsd, reserveMicroUsd }: Call['plan']): string {
  const price = microUsd === 0 ? 'is free' : `costs $${toUsd(microUsd)}`;
  return reserveMicroUsd > microUsd ? `costs at most $${toUsd(reserveMicroUsd)}` : price;
}

/**
 * Answers an admitted call without running or counting anything: the arguments as the tool would receive them, the price and
 * the rest of the limits.
 */
async function answerDryRun(
  ports: Pick<EnginePorts, 'rateLimiter' | 'budget' | 'breakers'>,
  call: Call,
): Promise<CallResult> {
  const { plan, tool, active } = call;
  const [tokensLeft, budget] = await Promise.all([
    plan.rate ? ports.rateLimiter.peek(rateKey(call.request.principal.tenantId, tool.name), plan.rate) : null,
    ports.budget.limits({ scopes: budgetScopes(call), budgets: payer(call) }, call.signal),
  ]);
  const output: JsonObject = {
    dry_run: true,
    tool: tool.name,
    revision: tool.revision,
    arguments: call.arguments,
    coercions: active.coercions.map((coercion) => ({ ...coercion })),
    dropped_arguments: [...active.dropped],
    policy: { allowed: true },
    cost: { cost_usd: toUsd(plan.microUsd), reserved_usd: toUsd(plan.reserveMicroUsd) },
    limits: {
      rate_limit_per_minute: plan.rate?.perPeriod ?? null,
      rate_limit_remaining: tokensLeft,
      budget: budget.limits.map((limit) => ({ ...limit })),
    },
    timeout_ms: call.timeoutMs,
    idempotent: plan.idempotent,
    max_attempts: call.request.limits.noRetry ? 1 : plan.retry.maxAttempts,
    breaker: ports.breakers.getState(tool.name),
  };
  return succeeded({
    output,
    text: `Dry run of '${tool.name}': the call is valid and allowed, and ${describePrice(plan)}; nothing was run.`,
    metadata: { dry_run: true },
  });
}
