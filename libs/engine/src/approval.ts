import {
  mayAskCaller,
  MAX_FORM_CHARS,
  ToolError,
  type ApprovalRule,
  type CallResult,
  type RequiredApproval,
} from '@toolfleet/contracts';
import { withIdempotencyKey, type Allowed, type Call } from './call.js';
import type { ApprovalPort } from './ports.js';
import type { Next } from './step.js';

/** The questions of the policy that are still open for this call as it is now. */
export function openQuestions(
  { ask = [], approval: rule }: Allowed,
  { request, tool, identity }: Call,
): { questions: readonly string[]; rule: ApprovalRule | undefined } {
  const given = ask.length > 0 ? request.approval?.given : undefined;
  // An approval counts for the approved revision only: a changed definition may do something else.
  const isOfCall = given?.fingerprint === undefined || given.fingerprint === identity.fingerprint;
  const isOfRule = given?.id !== undefined || mayAskCaller(rule);
  const answered = given?.revision === tool.revision && isOfCall && isOfRule ? given.questions : [];
  return { questions: ask.filter((question) => !answered.includes(question)), rule };
}

/**
 * Gets the approval of a call with open questions, or ends it. A call that people have granted in advance goes on. Of others, the entry
 * point asks the person of its client where it can and the rule does not ask for other people; otherwise the question is stored.
 * @throws ToolError APPROVAL_REQUIRED with the open questions; APPROVAL_INVALIDATED when the stored approval of the call does not hold
 *   any more; as `ApprovalPort.ask`
 */
export async function requireApproval(
  approvals: ApprovalPort | undefined,
  call: Call,
  questions: readonly string[],
  rule: ApprovalRule | undefined,
  next: Next,
): Promise<CallResult> {
  const { request, tool, identity } = call;
  const { asks = false, given } = request.approval ?? {};
  if (given?.id !== undefined)
    throw new ToolError('APPROVAL_INVALIDATED', {
      message: `The approval does not hold any more: ${whatChanged(call, questions)}`,
      details: { approval_id: given.id },
    });
  const required: RequiredApproval = { questions, revision: tool.revision, fingerprint: identity.fingerprint, rule };
  if (rule?.grant && approvals && request.mode.kind !== 'dry') {
    const grant = await approvals.useGrant({ call, required });
    if (grant !== undefined) {
      call.active.approvalGrant = grant;
      return next(call);
    }
  }
  const by = whoGoesOn(call, rule, asks, approvals);
  const shown = { tool: tool.name, arguments: call.arguments, microUsd: call.plan.reserveMicroUsd };
  const refusal = new ToolError('APPROVAL_REQUIRED', {
    message: `A person has to approve this call first: ${questions.join('; ')}${adviceFor(call)}`,
    details: { questions: [...questions], revision: tool.revision },
    facts: { approval: { ...required, ...(by && { by, call: shown }) } },
  });
  if (by || !approvals || !canBeStored(call)) throw refusal;
  const { idempotencyKey } = await approvals.ask({ call, required, refusal });
  return next(withIdempotencyKey(call, idempotencyKey));
}

/** Who goes on with a call once it is approved; undefined: the fleet, or it does not run. */
function whoGoesOn(
  { request, arguments: args }: Call,
  rule: ApprovalRule | undefined,
  asks: boolean,
  approvals: ApprovalPort | undefined,
): 'entry' | 'program' | undefined {
  // A form of a client cannot show long arguments, and a person must not approve hidden parts.
  const isShown = !approvals || JSON.stringify(args).length <= MAX_FORM_CHARS;
  if (asks && isShown && mayAskCaller(rule)) return 'entry';
  const waits = request.entryPoint === 'program' && (request.approval?.parks === true || rule?.parks === true);
  return waits && approvals ? 'program' : undefined;
}

/** Abilities of a call's maker without a question to people. */
function adviceFor({ request: { entryPoint, principal } }: Call): string {
  if (entryPoint === 'program')
    return '. Send the program with mode async or Prefer: respond-async, and it waits for people';
  if (principal.via !== 'delegation') return '';
  return '. A tool that calls tools for its caller, such as an agent, cannot wait for people: make this call from outside, or from a program';
}

/** A program is asked about by its gateway. */
const canBeStored = ({ request: { mode, entryPoint } }: Call): boolean =>
  mode.kind !== 'dry' && entryPoint !== 'program';

function whatChanged({ tool, identity, request }: Call, questions: readonly string[]): string {
  const { revision, fingerprint } = request.approval!.given!;
  if (revision !== tool.revision) return `tool '${tool.name}' changed since`;
  if (fingerprint !== identity.fingerprint) return 'its arguments are others now';
  return `the policy asks now: ${questions.join('; ')}`;
}
