import { isJsonObject, isToolError, ToolError, type CallResult, type JsonObject } from '@toolfleet/contracts';
import { requirePlainId } from '@toolfleet/contracts/text';
import type { ToolView } from '@toolfleet/contracts/toolset';
import type { ActiveCall } from '../call.js';
import { step, type Next, type Step } from '../step.js';

/** Refuses ids with control characters, on every entry point. @throws ToolError REQUEST_INVALID */
export function checkIds(): Step<ActiveCall> {
  return step('check ids', (next) => (active) => {
    const { context, requestId, agentId, taskId, reuse } = active.request;
    const { session_id, user_id, project_id } = context;
    const ids: Record<string, unknown> = { session_id, user_id, project_id };
    ids['request_id'] = requestId;
    ids['agent_id'] = agentId;
    ids['task_id'] = taskId;
    ids['idempotency_key'] = reuse.idempotencyKey;
    for (const field in ids) if (ids[field] !== undefined) requirePlainId(field, ids[field]);
    return next(active);
  });
}

/** Calls that a tool makes spend from the budgets of its own call; ids in the request that name other budgets are ignored. */
export function parentSpending(): Step<ActiveCall> {
  return step('parent spending', (next) => (active) => {
    const { parentSpends } = active.request.principal;
    if (parentSpends) {
      const { requestId: _request, agentId: _agent, taskId: _task, ...rest } = active.request;
      active.request = { ...rest, ...parentSpends };
    }
    return next(active);
  });
}

/**
 * Drops progress reports after the end of the call. Work can outlive its caller: another call may share it, or the executor has not
 * received the cancellation yet. Callers take a progress report as proof that the call is still running.
 */
export function progressUntilEnd(): Step<ActiveCall> {
  return step('progress', (next) => (active) => {
    const { onProgress } = active.request;
    if (!onProgress) return next(active);
    let ended = false;
    active.request = { ...active.request, onProgress: (progress) => (ended ? undefined : onProgress(progress)) };
    return next(active).finally(() => {
      ended = true;
    });
  });
}

/**
 * Shows callers with a toolset the names of its tools in results and errors. Everything inside, and with it policy, budget, metrics
 * and records, has the original ones.
 */
export function shownNames(): Step<ActiveCall> {
  return step(
    'shown names',
    (next) => (active) => (active.request.principal.toolset ? showNames(active, next) : next(active)),
  );
}

async function showNames(active: ActiveCall, next: Next<ActiveCall>): Promise<CallResult> {
  try {
    const result = await next(active);
    const { target, mode } = active.request;
    const { view, toolName } = target;
    return view ? toShownResult(result, toolName, view, mode.kind === 'dry') : result;
  } catch (error) {
    const { view, toolName } = active.request.target;
    throw view && isToolError(error) ? toShownError(error, toolName, view) : error;
  }
}

/** An error of a call as its caller sees it: with the shown name in place of the original one. */
function toShownError(error: ToolError, original: string, { shownName }: ToolView): ToolError {
  const { message, details, facts, retryAfterMs, cause } = error;
  if (original === shownName) return error;
  const shown = details && renamed(details, original, shownName);
  return new ToolError(error.code, {
    message: renameIn(message, original, shownName),
    details: shown,
    facts,
    retryAfterMs,
    cause,
  });
}

/** A result as its caller sees it: explanations and dry runs name the shown tool, and hidden arguments are left out. */
function toShownResult(result: CallResult, original: string, view: ToolView, isDryRun = false): CallResult {
  const { shownName, arguments: args } = view;
  if (result.ok && !isDryRun) return result;
  const shown: CallResult = { ...result, text: renameIn(result.text, original, shownName) };
  if (result.failure) {
    const { message, details } = result.failure;
    shown.failure = {
      ...result.failure,
      message: renameIn(message, original, shownName),
      details: details && renamed(details, original, shownName),
    };
  }
  if (isDryRun && isJsonObject(result.output)) {
    const output: JsonObject = { ...result.output, tool: shownName };
    if (args && isJsonObject(output.arguments)) {
      const hidden = new Set(args.hidden);
      output.arguments = Object.fromEntries(Object.entries(output.arguments).filter(([name]) => !hidden.has(name)));
    }
    shown.output = output;
  }
  return shown;
}

/** Details of an error name the tool in `tool`. */
function renamed(details: JsonObject, original: string, shownName: string): JsonObject {
  return details['tool'] === original ? { ...details, tool: shownName } : details;
}

/** Replaces the name where it is a separate word. */
function renameIn(text: string, original: string, shownName: string): string {
  if (original === shownName || !text.includes(original)) return text;
  return text.replaceAll(new RegExp(`(?<![A-Za-z0-9_-])${original}(?![A-Za-z0-9_-])`, 'g'), shownName);
}
