import type { CallToolResult } from '@modelcontextprotocol/server';
import { isJsonObject, toToolError, type Json, type JsonObject } from '@toolfleet/contracts';
import {
  choice,
  closed,
  defaulted,
  integer,
  list,
  maybe,
  object,
  record,
  text,
} from '@toolfleet/contracts/json-schema';
import {
  GATEWAY_TOOLS,
  type RegisteredTool,
  TOOL_DETAILS,
  type ToolDetail,
} from '@toolfleet/contracts/tool-definition';
import { argumentsInvalid } from '@toolfleet/engine';
import { ArgumentReader, type SchemaStyle } from '@toolfleet/bounded-schema';
import { briefTool, findTools, MAX_NAMES, namedTools, type CallersTools } from '@toolfleet/catalog';
import { toolStubs } from '@toolfleet/programs';
import { renderRefusal } from './render-result.js';
import { renderTool } from './rendered-catalog.js';
import type { NamedCall } from './tool-call.js';

/** Names of the gateway's own tools for finding and calling tools. */
const [SEARCH_TOOLS, DESCRIBE_TOOLS, CALL] = GATEWAY_TOOLS;
export const CALL_TOOL = CALL;
/** Default limits: of a search, and of a list without schemas. */
const FOUND = 8;
const LISTED = 50;
const MAX_LIMIT = 200;

const base = {
  version: '1.0.0',
  category: 'catalog',
  source: { kind: 'builtin', name: 'gateway' },
  binding: { kind: 'builtin', toolset: 'compute', handler: 'gateway' },
  revision: '1',
  available: true,
} as const;
const reads = {
  ...base,
  idempotent: true,
  annotations: { readOnlyHint: true, destructiveHint: false, openWorldHint: false },
};

/** `search_tools` with the default level of detail. */
function searchDefinition(detail: ToolDetail, next: string): RegisteredTool {
  return {
    ...reads,
    name: SEARCH_TOOLS,
    description: `Finds tools by what they do; without a query, lists them page by page. ${next}`,
    input_schema: closed({
      query: maybe(text('What the tool should do, in a few words', { minLength: 1 })),
      detail: defaulted(choice(TOOL_DETAILS, 'names; summary: with descriptions; full: with schemas'), detail),
      category: maybe(text('Only tools of this category or tag')),
      source: maybe(text('Only tools of this server or API')),
      limit: maybe(
        integer(`Default ${FOUND}; without query and schemas ${LISTED}`, { minimum: 1, maximum: MAX_LIMIT }),
      ),
      cursor: maybe(text('next_cursor of the previous page')),
    }),
  };
}

/** Replaces the list for a client of a large catalog: a few hundred tokens, however many tools there are. */
export const SEARCH_SURFACE: readonly RegisteredTool[] = [
  {
    ...base,
    name: CALL_TOOL,
    description: `Calls a tool found with ${SEARCH_TOOLS} and returns its result.`,
    input_schema: record({
      name: text('Name of the tool'),
      arguments: maybe(object('Arguments that match its input_schema')),
    }),
    idempotent: false,
    annotations: { readOnlyHint: false, destructiveHint: true, openWorldHint: true },
  },
  searchDefinition('full', `Call a tool with ${CALL_TOOL}.`),
];

/** Tools of a client in code mode in addition to `run_program`. */
export const CODE_SURFACE: readonly RegisteredTool[] = [
  {
    ...reads,
    name: DESCRIBE_TOOLS,
    description: 'Typed Python stubs of tools by name, as run_program calls them; or their JSON schemas.',
    input_schema: closed({
      names: list(text(), undefined, { minItems: 1, maxItems: MAX_NAMES }),
      format: defaulted(choice(['python', 'json']), 'python'),
    }),
  },
  searchDefinition('summary', `Read the arguments of those you need with ${DESCRIBE_TOOLS}.`),
];

const readers = new Map<RegisteredTool, ArgumentReader>();

/** The arguments of one of the gateway's own tools. @throws ToolError ARGUMENTS_INVALID */
function readArguments(tool: RegisteredTool, args: JsonObject): JsonObject {
  let reader = readers.get(tool);
  if (!reader) readers.set(tool, (reader = new ArgumentReader(tool.input_schema, { toolName: tool.name })));
  const read = reader.read(args);
  if (!read.ok) throw argumentsInvalid(tool.name, read.faults);
  return read.arguments;
}

/**
 * Runs `search_tools` or `describe_tools`. Errors of the call are reported in the result.
 * @param tool the definition that the client was shown
 */
export async function runCatalogTool(
  tool: RegisteredTool,
  args: JsonObject,
  tools: CallersTools,
  style: SchemaStyle,
): Promise<CallToolResult> {
  try {
    const read = readArguments(tool, args);
    return tool.name === SEARCH_TOOLS ? await search(read, tools, style) : await describe(read, tools, style);
  } catch (error) {
    return renderRefusal(undefined, tool.name, toToolError(error));
  }
}

async function search(args: JsonObject, tools: CallersTools, style: SchemaStyle): Promise<CallToolResult> {
  const { query, category, source, cursor } = args as Record<string, string | undefined>;
  const detail = args.detail as ToolDetail;
  const limit = Number(args.limit ?? (query === undefined && detail !== 'full' ? LISTED : FOUND));
  const found = await findTools(tools, { query, category, source, cursor, limit });
  const shown = found.tools.map((tool) => (detail === 'full' ? fullTool(tool, style) : briefTool(tool, detail)));
  const answer: JsonObject = { tools: shown };
  if (found.next !== undefined) answer.next_cursor = found.next;
  // The first page lists the categories.
  if ((query ?? category ?? source ?? cursor) === undefined) answer.categories = countCategories(await tools.list());
  const summary = shown.length === 0 ? 'No matching tool; try other words.' : JSON.stringify(answer);
  return { content: [{ type: 'text', text: summary }], structuredContent: answer, isError: false };
}

async function describe(args: JsonObject, tools: CallersTools, style: SchemaStyle): Promise<CallToolResult> {
  const named = namedTools(await tools.list(), args.names as string[]);
  if (args.format === 'python') return { content: [{ type: 'text', text: toolStubs(named) }], isError: false };
  const answer = { tools: named.map((tool) => fullTool(tool, style)) };
  return { content: [{ type: 'text', text: JSON.stringify(answer) }], structuredContent: answer, isError: false };
}

function fullTool(tool: RegisteredTool, style: SchemaStyle): JsonObject {
  const { name, description, inputSchema, outputSchema } = renderTool(tool, style);
  const shown: JsonObject = { name, description: description ?? '', input_schema: inputSchema as Json };
  if (outputSchema) shown.output_schema = outputSchema as Json;
  return shown;
}

function countCategories(tools: readonly RegisteredTool[]): JsonObject {
  const counts = new Map<string, number>();
  for (const { category } of tools) counts.set(category, (counts.get(category) ?? 0) + 1);
  return Object.fromEntries([...counts].toSorted(([a], [b]) => (a < b ? -1 : 1)));
}

/** Name and arguments inside a `call_tool`. @throws ToolError ARGUMENTS_INVALID */
export function readInnerCall(args: JsonObject): NamedCall {
  const { name, arguments: inner = {} } = readArguments(SEARCH_SURFACE[0]!, args);
  return { name: String(name), arguments: isJsonObject(inner) ? inner : {} };
}
