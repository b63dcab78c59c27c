import type { CallRequest, JsonObject } from '@toolfleet/contracts';
import type { RegisteredTool } from '@toolfleet/contracts/tool-definition';
import type { Deadline } from '@toolfleet/resilience';
import { CallIdentity, toolInputOf } from './call-identity.js';
import type { Call, CallTrace } from './call.js';
import type { EngineSettings } from './settings.js';
import { attemptTimeoutMs } from './time-limits.js';
import type { ToolPlan } from './tool-plan.js';

const NOTHING: readonly never[] = [];

/** What observers see from the first moment on. */
export function seeing(request: CallRequest, startedAt: number): CallTrace {
  return { request, startedAt, coercions: NOTHING, dropped: NOTHING, attempts: 0, waitedMs: 0 };
}

/** A call that was found, allowed and is valid: what goes into the chain. */
export function openCall(parts: {
  seen: CallTrace;
  tool: RegisteredTool;
  plan: ToolPlan;
  args: JsonObject;
  signal: AbortSignal;
  deadline: Deadline;
  settings: EngineSettings;
}): Call {
  const { seen, tool, plan, args, signal, deadline, settings } = parts;
  const { request } = seen;
  const input = toolInputOf(tool, request, args);
  return {
    callId: request.callId,
    request,
    seen,
    tool,
    plan,
    arguments: args,
    input,
    identity: new CallIdentity(input, request, tool),
    signal,
    deadline,
    attempt: 1,
    fence: 0,
    journalled: false,
    timeoutMs: attemptTimeoutMs(plan, request, args, settings),
  };
}
