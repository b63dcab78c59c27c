import { CodedError, describeCodes, isCodedError } from '@toolfleet/base/coded-error';
import type { JsonObject } from '@toolfleet/base/json';
import type { RequiredApproval } from '../approval.js';
import { CATALOGUE, type ErrorCode } from './catalogue.js';

/**
 * Facts about one failure beyond its code. Decides what the call is charged, whether it is sent again and what
 * breakers count, so only the fleet's own code sets it: nothing that a tool or an upstream reports can. An absent fact is as the
 * catalogue says of the code.
 */
export interface FailureFacts {
  /** `no`: the attempt provably never began; it is free and may be sent again. `ended`: its executor ended it, so its outcome is known. */
  begun?: 'no' | 'ended';
  /** Whether the request may have reached the upstream before the connection failed. */
  delivered?: boolean;
  /**
   * `caller`: the target was the caller's choice. `target`: the upstream failed. `tool`: it was slower than its limit. `executor`: the
   * executor did not respond.
   */
  blame?: 'caller' | 'target' | 'tool' | 'executor';
  /** No executor is subscribed. The broker reports that at once, so no breaker has to. */
  noResponders?: true;
  /** Names that may have been meant by one that does not exist. */
  similar?: readonly string[];
  /** HTTP status of the upstream. */
  status?: number;
  /** JSON-RPC code of the error that an MCP server answered with. */
  rpcCode?: number;
  /** Distinctions within one code. */
  reason?: FailureReason;
  /** APPROVAL_REQUIRED: the questions for a person, and for which revision of the tool. */
  approval?: RequiredApproval;
  /** INPUT_REQUIRED: the questions for a person. Absent where the caller cannot be asked. */
  input?: RequiredInput;
  /** AUTHORIZATION_REQUIRED: where the user connects an account before the call is made again. */
  connect?: { source: string; url: string };
}

/** A tool's questions before it runs. Its entry point asks, and makes the same call again with the answers. */
export interface RequiredInput {
  /** The server that asks. */
  server: string;
  /** Revision of the tool that asks. */
  revision: string;
  /** Requests of MCP (`elicitation/create`) by key. */
  requests: JsonObject;
  /** To be sent back unchanged with the answers. */
  state?: string;
  /** Id at the server of the task that asks, or that the caller takes over if there are no requests. */
  task?: string;
  /** The mcp-executor that holds the call open until the answers, because its server does. They have to reach this one. */
  executor?: string;
}

/**
 * `auth_failed`: an upstream refused the fleet's own credential. `missing`: a file does not exist. `superseded`: a registration was
 * removed or replaced meanwhile. `unparsable`: a document has a syntax error. `too_slow`: a computation reached its time limit.
 */
type FailureReason = 'auth_failed' | 'missing' | 'superseded' | 'unparsable' | 'too_slow';

/** True for an HTTP status that says that an upstream is failing or overloaded; any other is an answer. */
export function isServerFault(status: number): boolean {
  return status >= 500 || status === 408 || status === 429;
}

describeCodes(Object.fromEntries(Object.entries(CATALOGUE).map(([code, { hint }]) => [code, hint])));
// A hint that does not describe the failure.
describeCodes({ CANCELLED: 'The call was cancelled by its caller' });

/**
 * The only error class that crosses functions and services; errors of kits are of it, too. Its code determines status, retryability and
 * charge (`CATALOGUE`); every transport renders it in one place. The default message is the hint of the code. Facts decide, details are
 * only shown.
 */
export const ToolError = CodedError<ErrorCode, FailureFacts>;
export type ToolError = CodedError<ErrorCode, FailureFacts>;

/** REQUEST_INVALID. @param fields of the request that are at fault */
export function invalidRequest(message: string, ...fields: readonly string[]): ToolError {
  return new ToolError('REQUEST_INVALID', {
    message,
    details: fields.length > 0 ? { fields: [...fields] } : undefined,
  });
}

/** True for errors of the catalogue. */
export function isToolError(error: unknown): error is ToolError {
  return isCodedError(error);
}

/** Converts any thrown value. Anything but a ToolError becomes INTERNAL with the original as `cause`. */
export function toToolError(error: unknown): ToolError {
  if (isToolError(error)) return error;
  return new ToolError('INTERNAL', { message: `Internal error: ${toText(error)}`, cause: error });
}

/** Never throws, unlike `String` for objects without a prototype. */
function toText(error: unknown): string {
  try {
    return error instanceof Error ? error.message : String(error);
  } catch {
    return 'a value without a message was thrown';
  }
}
