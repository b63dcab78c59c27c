import type { CallToolResult } from '@modelcontextprotocol/server';
import { isJsonObject, type JsonObject } from '@toolfleet/contracts';
import type { RegisteredTool } from '@toolfleet/contracts/tool-definition';
import type { SchemaStyle } from '@toolfleet/schema';
import { renderTool } from './rendered-catalog.js';
import type { NamedCall } from './tool-call.js';

/** Names of the two tools that represent a large catalog. */
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

/** What a client of a large catalog sees instead of the list: a few hundred tokens, however many tools there are. */
export const SEARCH_SURFACE: readonly RegisteredTool[] = [
  {
    ...base,
    name: CALL_TOOL,
    description: `Calls a tool found with ${SEARCH_TOOLS} and returns its result.`,
    input_schema: {
      type: 'object',
      properties: {
        name: { type: 'string', description: 'Name of the tool' },
        arguments: { type: 'object', description: 'Arguments that match its input_schema' },
      },
      required: ['name'],
    },
    idempotent: false,
    annotations: { readOnlyHint: false, destructiveHint: true, openWorldHint: true },
  },
  {
    ...base,
    name: SEARCH_TOOLS,
    description: `Finds tools by what they do. Returns names, descriptions and input schemas; call a tool with ${CALL_TOOL}.`,
    input_schema: {
      type: 'object',
      properties: {
        query: { type: 'string', description: 'What the tool should do, in a few words' },
        limit: { type: 'integer', minimum: 1, maximum: MAX_LIMIT, default: DEFAULT_LIMIT },
      },
      required: ['query'],
    },
    annotations: { readOnlyHint: true, destructiveHint: false, openWorldHint: false },
  },
];

/** Runs `search_tools`. Wrong arguments are reported in the result. */
export async function searchTools(
  args: JsonObject,
  search: (query: string, limit: number) => Promise<readonly RegisteredTool[]>,
  style: SchemaStyle,
): Promise<CallToolResult> {
  const query = args['query'];
  if (typeof query !== 'string' || query.trim() === '')
    return invalidArguments('query is missing: describe in a few words what the tool should do');
  const wanted = Number(args['limit'] ?? DEFAULT_LIMIT);
  const limit = Number.isInteger(wanted) ? Math.min(Math.max(wanted, 1), MAX_LIMIT) : DEFAULT_LIMIT;
  const found = (await search(query, limit)).map((tool) => {
    const { name, description, inputSchema } = renderTool(tool, style);
    return { name, description, input_schema: inputSchema };
  });
  const text = found.length === 0 ? 'No matching tool; try other words.' : JSON.stringify(found);
  return { content: [{ type: 'text', text }], structuredContent: { tools: found }, isError: false };
}

/** Name and arguments inside a `call_tool`, or the result that reports what is wrong with them. */
export function readInnerCall(args: JsonObject): NamedCall | CallToolResult {
  const { name, arguments: inner = {} } = args;
  if (typeof name !== 'string' || name === '')
    return invalidArguments('name is missing: give the name of the tool to call');
  if (!isJsonObject(inner ?? {})) return invalidArguments('arguments must be an object');
  return { name, arguments: isJsonObject(inner) ? inner : {} };
}

function invalidArguments(message: string): CallToolResult {
  return {
    content: [{ type: 'text', text: message }],
    isError: true,
    _meta: { code: 'ARGUMENTS_INVALID', error_type: 'invalid_arguments' },
  };
}
