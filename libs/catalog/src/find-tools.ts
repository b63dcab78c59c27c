import { ToolError, type JsonObject } from '@toolfleet/contracts';
import { question } from '@toolfleet/contracts/text';
import { type RegisteredTool, summaryOf } from '@toolfleet/contracts/tool-definition';
import { similarNames } from './similar-tools.js';
import { matching, pageOf, type ToolFilter, type ToolPredicate } from './tool-list.js';

/** Most tools that one request may name. */
export const MAX_NAMES = 50;

/** The tools of one caller: all of them by name, and by a task. */
export interface CallersTools {
  list(): Promise<readonly RegisteredTool[]>;
  /** At most `limit` of the wanted tools, best first. */
  search(query: string, limit: number, isWanted?: ToolPredicate): Promise<readonly RegisteredTool[]>;
}

/** A caller's query: a task in words, or tools by category or source, page by page. */
interface ToolQuery extends ToolFilter {
  query?: string;
}

/**
 * Tools for a task, best first; without one a page of all tools by name.
 * @throws ToolError REQUEST_INVALID for a malformed cursor, or a cursor together with a task
 */
export async function findTools(
  tools: CallersTools,
  { query, limit, ...filter }: ToolQuery,
): Promise<{ tools: readonly RegisteredTool[]; next?: string }> {
  if (query === undefined) return pageOf(await tools.list(), { ...filter, limit });
  if (filter.cursor !== undefined) {
    const message = 'cursor continues a list; a search by query has one page';
    throw new ToolError('REQUEST_INVALID', { message, details: { fields: ['cursor', 'query'] } });
  }
  return { tools: await tools.search(query, limit ?? (await tools.list()).length, matching(filter)) };
}

/**
 * Tools by their names or aliases, in the order asked for and each once.
 * @throws ToolError TOOL_NOT_FOUND naming all that the caller does not see; REQUEST_INVALID for no names, or for too many
 */
export function namedTools(tools: readonly RegisteredTool[], names: readonly string[]): RegisteredTool[] {
  if (names.length === 0 || names.length > MAX_NAMES) {
    const message = `names must have 1 to ${MAX_NAMES} names of tools, not ${names.length}`;
    throw new ToolError('REQUEST_INVALID', { message, details: { fields: ['names'] } });
  }
  const known = new Map(tools.flatMap((tool) => [...(tool.aliases ?? []), tool.name].map((name) => [name, tool])));
  const unknown = names.filter((name) => !known.has(name));
  if (unknown.length > 0) {
    const listed = unknown
      .map((name) => `'${name.slice(0, 100)}'${question(similarNames(name, [...known.keys()]))}`)
      .join(', ');
    throw new ToolError('TOOL_NOT_FOUND', { message: `No tools ${listed}`, details: { tools: unknown } });
  }
  return [...new Set(names.map((name) => known.get(name)!))];
}

/** A tool at one level of detail below `full`, in the form of the entry point. */
export function briefTool(tool: RegisteredTool, detail: 'names' | 'summary'): string | JsonObject {
  return detail === 'names' ? tool.name : { name: tool.name, description: summaryOf(tool) };
}
