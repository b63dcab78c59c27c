import { fileURLToPath } from 'node:url';
import {
  type PolicyEngine,
  readPolicyFolder,
  ReloadingPolicy,
  type PolicyDecision,
  type PolicyInput,
} from '@toolfleet/policy';
import { mcpMethod } from '@toolfleet/contracts/tool-definition';
import { FatalStartupError, type ServiceHost, type LifecycleComponent } from '@toolfleet/service';
import { BoundedLabel } from '@toolfleet/telemetry';
import { PolicyPort, type PolicyRequest, type PolicyResult } from '@toolfleet/engine';
import { OpaSidecar } from './opa-sidecar.js';

/** Settings of the gateway that concern policies. */
interface PolicySettings {
  POLICY_DIR?: string | undefined;
  OPA_URL?: string | undefined;
}

/** The same depth in `src` and `dist`, in the repository and in an image. */
const SHIPPED = fileURLToPath(new URL('../../../../deploy/policies', import.meta.url));
/** A changed policy takes effect within two of these intervals: it is loaded when two reads are equal. */
const RELOAD_EVERY_MS = 1_000;
/** Longest wait for OPA, which runs next to the gateway; a late decision is a denial. */
const OPA_TIMEOUT_MS = 500;
/** Most values of the label `rule`. */
const MAX_RULES = 2_000;

/** Builds the policy of this gateway, evaluated in process or by an OPA server, and the component that keeps it up to date. */
export function policyComponent(
  settings: PolicySettings,
  host: Pick<ServiceHost, 'clock' | 'logger' | 'metrics' | 'faults'>,
): { policy: EnginePolicy; component: LifecycleComponent } {
  const { clock, logger, metrics, faults } = host;
  const rules = new BoundedLabel(MAX_RULES);
  const port = (engine: PolicyEngine, hash: () => string | undefined): EnginePolicy =>
    new EnginePolicy(engine, ({ call, tool }, reasons) => {
      for (const reason of reasons) metrics.policyDenied.inc({ rule: rules.of(reason) });
      const { callId, principal } = call.request;
      logger.info(
        { tool_name: tool.name, call_id: callId, tenant_id: principal.tenantId, reasons, policy_hash: hash() },
        'policy denied a call',
      );
    });

  if (settings.OPA_URL !== undefined) {
    const opa = new OpaSidecar({ url: settings.OPA_URL, timeoutMs: OPA_TIMEOUT_MS }, clock);
    const component = { name: 'policy (opa)', ready: () => opa.reachable(), stop: () => opa.close() };
    return { policy: port(opa, () => 'opa'), component };
  }
  const folder = settings.POLICY_DIR ?? SHIPPED;
  let refusal = '';
  const own = new ReloadingPolicy({
    read: () => readPolicyFolder(folder),
    clock,
    everyMs: RELOAD_EVERY_MS,
    events: {
      loaded: (hash) => {
        refusal = '';
        faults.set('policy', []);
        logger.info({ policy_hash: hash }, 'policy loaded');
      },
      refused: (error, kept) => {
        // A folder that cannot be read is refused at every reload; it is logged once.
        const isKnown = error.message === refusal;
        refusal = error.message;
        if (kept === undefined || isKnown) return;
        faults.set('policy', [`refused; the previous policy stays in force: ${refusal}`]);
        logger.error({ fault: refusal, policy_hash: kept }, 'policy refused; the previous one stays in force');
      },
    },
  });
  const start = async () => {
    await own.start();
    if (own.ready) return;
    own.stop();
    throw new FatalStartupError(`the policy of ${folder} cannot be loaded: ${refusal}`);
  };
  const component = {
    name: 'policy',
    settings: ['POLICY_DIR'],
    start,
    ready: () => own.ready,
    stop: async () => own.stop(),
  };
  return { policy: port(own, () => own.hash), component };
}

/** Receives every denial. */
type DenialHook = (request: PolicyRequest, reasons: readonly string[]) => void;

/** The engine's policy port: builds the input of the rules (docs/policy.md) and reports denials. */
class EnginePolicy extends PolicyPort {
  constructor(
    private readonly engine: PolicyEngine,
    private readonly onDenied: DenialHook = () => undefined,
  ) {
    super();
  }

  override decide(request: PolicyRequest): PolicyResult | Promise<PolicyResult> {
    const decision = this.engine.decide(policyInput(request));
    if (!(decision instanceof Promise)) return this.toResult(request, decision);
    return decision.then((decided) => this.toResult(request, decided));
  }

  private toResult(request: PolicyRequest, { deny, ...asked }: PolicyDecision): PolicyResult {
    if (deny.length === 0) return { allowed: true, ...asked };
    this.onDenied(request, deny);
    return { allowed: false, reasons: deny, rules: asked.rules };
  }
}

/** The input of the rules. Tenant and roles come from the credential; the name is the tool's own, never an alias. */
export function policyInput({ call, tool, arguments: args }: PolicyRequest): PolicyInput {
  const { principal, origin, entryPoint, context, mode, target } = call.request;
  const { view } = target;
  return {
    tool: tool.name,
    action: mcpMethod(tool.binding, args),
    user: { id: principal.userId, tenant: principal.tenantId, roles: principal.roles, via: principal.via },
    arguments: args,
    origin,
    entry_point: entryPoint,
    ...(typeof context.session_id === 'string' ? { session_id: context.session_id } : {}), // rules see absent, not undefined
    ...callInput(principal.parentCallId, view?.toolset.name),
    category: tool.category,
    tags: tool.tags ?? [],
    dangerous: tool.dangerous ?? false,
    dry_run: mode.kind === 'dry',
  };
}

/** `input.call`: the origin of the call; absent when it came directly from its caller, without a toolset. */
function callInput(parent: string | undefined, toolset: string | undefined): Pick<PolicyInput, 'call'> {
  if (parent === undefined && toolset === undefined) return {};
  const call: NonNullable<PolicyInput['call']> = {};
  if (parent !== undefined) call.parent = parent;
  if (toolset !== undefined) call.toolset = toolset;
  return { call };
}
