import type { CallBody, CallMessage, JsonObject } from '@toolfleet/contracts';

/** For whom, and until when, tools are called. */
export interface CallerGrant {
  /** Token of the call that is being served: its caller's rights and budget, no more. */
  delegationToken: string;
  /** Epoch ms. */
  deadlineAt: number;
  signal: AbortSignal;
}

/** Calls tools of the fleet on behalf of a call. Injected by type. */
export abstract class ToolCaller {
  /** Tools the caller may use, in the native format (`name`, `description`, `parameters`). */
  abstract list(grant: CallerGrant): Promise<JsonObject[]>;
  /** @throws ToolError when the call was refused (POLICY_DENIED, BUDGET_EXCEEDED, ARGUMENTS_INVALID, …) */
  abstract call(message: CallMessage, grant: CallerGrant): Promise<CallBody>;
}
