import {
  disclaimerOf,
  isToolError,
  payloadOmitted,
  ToolError,
  type JsonObject,
  type Principal,
} from '@toolfleet/contracts';
import { contentRefusal } from '@toolfleet/access';
import { parseSelect, showValue, toDocument, withDisclaimer, type ResultSelector } from '@toolfleet/engine';
import { type AsyncCalls, type CallerSession } from './async-calls.js';
import { isFinal } from './call-store.js';

/** Characters of a page: default and maximum. */
export const PAGE_CHARS = { default: 16_000, most: 100_000 } as const;

/** The reader of a kept result. */
interface ResultCaller {
  principal: Principal;
  /** Results of a call in a named session are read in that session only. */
  session?: CallerSession;
  signal: AbortSignal;
}

/** The requested part of a kept result: a selection by an expression, or a page. */
export interface PartRequest {
  select?: string;
  /** First character, counted in UTF-16 units from 0. */
  offset?: number;
  /** Maximum number of characters. */
  limit?: number;
}

/**
 * A part of a kept result. `output` is a selection; all other members belong to a page. `disclaimer` says why the result is not a
 * live one.
 */
export interface ResultPart extends JsonObject {
  handle: string;
  tool: string;
}

/** Reads kept results in parts: with a handle, of asynchronous calls and of calls with a key. */
export class ResultReader {
  constructor(
    private readonly calls: Pick<AsyncCalls, 'get'>,
    private readonly selector: ResultSelector,
  ) {}

  /**
   * @throws ToolError NOT_FOUND, also for results of calls that the caller does not see; PERMISSION_DENIED; REQUEST_INVALID for an invalid expression; TOOL_ERROR
   *   for a selection that fails or is too large
   */
  async read(caller: ResultCaller, handle: string, part: PartRequest): Promise<ResultPart> {
    const { select, offset = 0, limit = PAGE_CHARS.default } = part;
    const selection = select === undefined ? undefined : parseSelect(select);
    const { tool, document, marks } = await this.find(caller, handle);
    if (selection === undefined) {
      const text = document.slice(offset, offset + Math.min(limit, PAGE_CHARS.most));
      const end = offset + text.length;
      return {
        handle,
        tool,
        ...marks,
        offset,
        chars: document.length,
        next_offset: end < document.length ? end : null,
        text,
      };
    }
    const bounds = { tenantId: caller.principal.tenantId, signal: caller.signal };
    const { value, shape } = await this.selector.select(document, selection, bounds);
    const { length } = JSON.stringify(value);
    if (length > PAGE_CHARS.most) {
      throw new ToolError('TOOL_ERROR', {
        message: `The selection has ${length} characters, more than ${PAGE_CHARS.most}: select less of it`,
      });
    }
    const found: ResultPart = { handle, tool, ...marks, output: value };
    if (shape !== undefined) found.note = `select matches nothing in the result, which is ${shape}`;
    return found;
  }

  private async find(
    { principal, session }: ResultCaller,
    handle: string,
  ): Promise<{ tool: string; document: string; marks: JsonObject }> {
    const { tool, state, result, isWithheld } = await this.calls
      .get(principal, handle, { session })
      .catch((error: unknown) => {
        throw isToolError(error) && error.code === 'NOT_FOUND' ? noResult(handle) : error;
      });
    if (isWithheld) throw contentRefusal();
    if (result && payloadOmitted(result) === undefined)
      return { tool, document: toDocument(result), marks: disclaimerOf(result) };
    throw result || isFinal(state)
      ? noResult(handle)
      : new ToolError('NOT_FOUND', { message: `Call '${handle}' has not ended yet (${state})` });
  }
}

const noResult = (handle: string): ToolError =>
  new ToolError('NOT_FOUND', {
    message: `No result '${handle.slice(0, 255)}' is kept; it may have expired. Call the tool again`,
  });

/** The part as text for a model, with its range and the start of the next page. */
export function showPart(part: ResultPart): string {
  return withDisclaimer(part, showRange(part));
}

function showRange({ output, note, text, offset, chars, next_offset: next }: ResultPart): string {
  if (output !== undefined) return typeof note === 'string' ? note : showValue(output);
  const end = typeof next === 'number' ? `the next page has offset ${next}` : 'this is the end';
  const shown = String(text);
  return `${shown}\n[characters ${String(offset)} to ${Number(offset) + shown.length} of ${String(chars)}; ${end}]`;
}
