import { isToolError, ToolError, type CallRequest, type CallResult, type Json } from '@toolfleet/contracts';
import { readSelect, SelectRefused, type SelectExpression } from '@toolfleet/bounded-schema/select';
import type { Call } from '../call.js';
import { step, type Step } from '../step.js';
import type { EnginePorts } from '../ports.js';
import { toDocument, withDisclaimer } from '../result-handle.js';
import type { ToolPlan } from '../tool-plan.js';

/** The JMESPath expression for the whole result: it switches off the selection of a tool. */
const WHOLE = '@';

/**
 * The selection of a call: its own, else its tool's.
 * @throws ToolError REQUEST_INVALID with the position of the error, before anything runs
 */
export function readSelection(plan: ToolPlan, { input: { select } }: CallRequest): SelectExpression | undefined {
  if (select === undefined) return plan.select;
  return select.trim() === WHOLE ? undefined : parseSelect(select);
}

/**
 * A JSONPath or JMESPath expression that a caller sent as `select`.
 * @throws ToolError REQUEST_INVALID with the position of the error
 */
export function parseSelect(select: string): SelectExpression {
  try {
    return readSelect(select);
  } catch (error) {
    if (!(error instanceof SelectRefused)) throw error;
    throw new ToolError('REQUEST_INVALID', {
      message: `Invalid select: ${error.message}`,
      details: { fields: ['select'], position: error.position ?? null },
    });
  }
}

/**
 * Gives a caller the part of a successful result that its call selects. The outermost step: cache, journal and calls that share a
 * run have the whole result, so that each caller gets its own selection of it. Failures are returned whole.
 */
export function selectPart(ports: Pick<EnginePorts, 'selector'>): Step {
  return step('select part', (next) => {
    const runAndSelect = async (call: Call, selection: SelectExpression): Promise<CallResult> => {
      const result = await next(call);
      return result.ok && !result.failure ? toSelection(ports, call, selection, result) : result;
    };
    return (call) => (call.select === undefined ? next(call) : runAndSelect(call, call.select));
  });
}

/**
 * The result with the selection as output and as text. A selection that fails does not fail the call: it has run and may have had
 * its effect: its output is null, and text and metadata explain why.
 */
async function toSelection(
  { selector }: Pick<EnginePorts, 'selector'>,
  { request, signal, tool }: Call,
  selection: SelectExpression,
  result: CallResult,
): Promise<CallResult> {
  const { expression } = selection;
  try {
    const bounds = { tenantId: request.principal.tenantId, signal };
    const { value, shape } = await selector.select(toDocument(result), selection, bounds);
    if (shape === undefined) return withOutput(result, value, showValue(value), { expression, matched: true });
    const note = `select ${JSON.stringify(expression)} matches nothing in the result of '${tool.name}', which is ${shape}`;
    return withOutput(result, value, note, { expression, matched: false, note });
  } catch (error) {
    if (signal.aborted || !isToolError(error)) throw error;
    const note = `The call of '${tool.name}' succeeded, but select ${JSON.stringify(expression)} failed: ${error.message}`;
    return withOutput(result, null, note, { expression, matched: false, note, code: error.code });
  }
}

/** A selected value as text for a model: objects and arrays as JSON. */
export function showValue(value: Json): string {
  return typeof value === 'object' ? JSON.stringify(value) : String(value);
}

/** Text blocks repeat unselected parts; pictures, files and links stay. */
function withOutput(result: CallResult, output: Json, shown: string, select: CallResult['metadata']): CallResult {
  const text = withDisclaimer(result.metadata, shown);
  const rest = result.content?.filter(({ type }) => type !== 'text') ?? [];
  const content = rest.length > 0 ? [{ type: 'text', text }, ...rest] : undefined;
  return { ...result, output, text, content, metadata: { ...result.metadata, select } };
}
