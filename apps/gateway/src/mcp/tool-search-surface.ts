import type { CallToolResult } from '@modelcontextprotocol/server';
import { isJsonObject, type JsonObject } from '@toolfleet/contracts';
import type { RegisteredTool } from '@toolfleet/contracts/tool-definition';
import { renderTool } from './render-mcp.js';

/** Names of the two tools that stand for a large catalogue. */
export const SEARCH_TOOLS = 'search_tools';
export const CALL_TOOL = 'call_tool';
const DEFAULT_LIMIT = 8;
const MAX_LIMIT = 25;

const base = {
  version: '1.0.0',
  category: 'catalog',
  source: { kind: 'builtin', name: 'gateway' },
  binding: { kind: 'builtin', toolset: 'compute', handler: 'gateway' },
  revision: '1',
  available: true,
  idempotent: true,
} as const;

/** What a client of a large catalogue sees instead of the list: a few hundred tokens, however many tools there are. */
export const SEARCH_SURFACE: readonly RegisteredTool[] = [
  {
    ...base,
    name: CALL_TOOL,
    description: `Calls a tool found with ${SEARCH_TOOLS}. The answer is that tool's own.`,
    input_schema: {
      type: 'object',
      properties: {
        name: { type: 'string', description: 'Name of the tool' },
        arguments: { type: 'object', description: 'Its arguments, as its input_schema says' },
      },
      required: ['name'],
    },
    idempotent: false,
  },
  {
    ...base,
    name: SEARCH_TOOLS,
    description: `Finds tools by what they do and answers their names, descriptions and input schemas. Then use ${CALL_TOOL}.`,
    input_schema: {
      type: 'object',
      properties: {
        query: { type: 'string', description: 'What the tool should do, in a few words' },
        limit: { type: 'integer', minimum: 1, maximum: MAX_LIMIT, default: DEFAULT_LIMIT },
      },
      required: ['query'],
    },
    annotations: { readOnlyHint: true },
  },
];

/** The answer of `search_tools`. */
export async function searchAnswer(
  args: JsonObject,
  search: (query: string, limit: number) => Promise<readonly RegisteredTool[]>,
): Promise<CallToolResult> {
  const query = args['query'];
  if (typeof query !== 'string' || query.trim() === '')
    return problem('query is missing: say in a few words what the tool should do');
  const asked = Number(args['limit'] ?? DEFAULT_LIMIT);
  const limit = Number.isInteger(asked) ? Math.min(Math.max(asked, 1), MAX_LIMIT) : DEFAULT_LIMIT;
  const found = (await search(query, limit)).map((tool) => {
    const { name, description, inputSchema } = renderTool(tool);
    return { name, description, input_schema: inputSchema };
  });
  const text = found.length === 0 ? 'No tool fits; try other words.' : JSON.stringify(found);
  return { content: [{ type: 'text', text }], structuredContent: { tools: found }, isError: false };
}

/** Name and arguments inside a `call_tool`, or what is wrong. */
export function innerCall(args: JsonObject): { name: string; arguments: JsonObject } | CallToolResult {
  const { name, arguments: inner = {} } = args;
  if (typeof name !== 'string' || name === '') return problem('name is missing: give the name of the tool to call');
  if (!isJsonObject(inner ?? {})) return problem('arguments must be an object');
  return { name, arguments: isJsonObject(inner) ? inner : {} };
}

function problem(message: string): CallToolResult {
  return {
    content: [{ type: 'text', text: message }],
    isError: true,
    _meta: { code: 'ARGUMENTS_INVALID', error_type: 'invalid_arguments' },
  };
}
