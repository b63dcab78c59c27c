import { ProtocolError, ProtocolErrorCode, type CallToolResult } from '@modelcontextprotocol/server';
import { toToolError, type McpMode, type Principal, type ResultReading } from '@toolfleet/contracts';
import { callsTools, type RegisteredTool } from '@toolfleet/contracts/tool-definition';
import type { CallersTools } from '@toolfleet/catalog';
import { toolExpression } from '@toolfleet/programs';
import type { ClientFeatures } from './client-features.js';
import { CALL_TOOL, CODE_SURFACE, readInnerCall, runCatalogTool, SEARCH_SURFACE } from './catalog-tools.js';
import type { McpServerDeps } from './server-deps.js';
import type { RenderedCatalog } from './rendered-catalog.js';
import { renderRefusal } from './render-result.js';
import type { NamedCall } from './tool-call.js';

const INSTRUCTIONS =
  'Tools of a tool-execution fleet. A result with isError carries a code and a suggestion in _meta; pass idempotency_key in _meta to repeat a call safely.';
const CODE_INSTRUCTIONS = `Tools are called by Python programs here:
1. search_tools finds tools for a task: names and descriptions.
2. describe_tools returns typed stubs of those you need.
3. run_program runs a program that calls them as tools.name(key=value), several at once with gather(...).
Do as much as you can in one program, and let it return only what you need. except ToolError as e: e.code, e.hint.`;
const NO_PROGRAMS = '\nYour key may not call run_program. Ask for a key whose tools include it.';

/** The tools that one client sees, and how its calls reach them. */
export interface Surface {
  mode: McpMode;
  /** The tools that are listed. */
  catalog: RenderedCatalog;
  /** How the client reads kept results. */
  resultReading: ResultReading;
  /** The server's `instructions`. */
  instructions: string;
  /**
   * The result of a call of one of the gateway's own tools, or the call to run.
   * @throws ProtocolError -32602 for a tool that is not part of the surface
   */
  route(call: NamedCall): Promise<{ result: CallToolResult } | { call: NamedCall }>;
}

/** Opens the surface that the key is bound to, else the one that the URL names, else the settings'. */
export async function openSurface(
  deps: McpServerDeps,
  principal: Principal,
  { apps }: ClientFeatures,
): Promise<Surface> {
  const tools = await deps.listTools(principal, apps);
  const { surface, searchAbove } = deps.options;
  const automatic = tools.length > searchAbove ? 'search' : 'list';
  const mode = principal.mcpMode ?? deps.mode ?? (surface === 'auto' ? automatic : surface);
  const { renderer } = deps;
  const resultReading = readingIn(mode, tools);
  if (mode === 'list') {
    return {
      mode,
      catalog: renderer.render(tools),
      resultReading,
      instructions: INSTRUCTIONS,
      route: async (call) => ({ call }),
    };
  }
  const isCode = mode === 'code';
  const { shown, callable } = isCode ? codeTools(tools) : { shown: SEARCH_SURFACE, callable: tools };
  const own = isCode ? CODE_SURFACE : SEARCH_SURFACE;
  const callers: CallersTools = {
    list: async () => callable,
    search: (query, limit, isWanted = () => true) =>
      deps.searchTools(principal, query, limit, (tool) => isWanted(tool) && !(isCode && callsTools(tool))),
  };
  const catalog = renderer.render(shown);
  return {
    mode,
    catalog,
    resultReading,
    instructions: isCode ? CODE_INSTRUCTIONS + (shown.length > own.length ? '' : NO_PROGRAMS) : INSTRUCTIONS,
    async route(call) {
      const tool = own.find(({ name }) => name === call.name);
      if (tool?.name === CALL_TOOL) return routeInner(call);
      if (tool) return { result: await runCatalogTool(tool, call.arguments, callers, renderer.style) };
      if (isCode && !catalog.tools.has(call.name)) throw notInCodeMode(call.name);
      return { call };
    },
  };
}

/** Name of the tool that reads kept results. Keyed by the list of all tools, so that no call searches thousands of them. */
const readerOf = new WeakMap<readonly RegisteredTool[], { name: string | undefined }>();

/** How a client reads kept results. A toolset may show the tool for it under another name, or not at all. */
function readingIn(mode: McpMode, tools: readonly RegisteredTool[]): ResultReading {
  let reader = readerOf.get(tools);
  if (!reader) {
    reader = { name: tools.find(({ binding }) => binding.kind === 'result')?.name };
    readerOf.set(tools, reader);
  }
  const { name: tool } = reader;
  if (tool === undefined) return { by: 'resource' };
  if (mode === 'code') return { by: 'program', function: toolExpression(tool) };
  return { by: mode === 'search' ? 'call_tool' : 'tool', tool };
}

function routeInner(call: NamedCall): { result: CallToolResult } | { call: NamedCall } {
  try {
    return { call: readInnerCall(call.arguments) };
  } catch (error) {
    return { result: renderRefusal(undefined, call.name, toToolError(error)) };
  }
}

/** The list of a client in code mode, and the tools that its programs can call. */
interface CodeTools {
  shown: readonly RegisteredTool[];
  callable: readonly RegisteredTool[];
}

/** Keyed by the list of all tools, replaced but never changed, so that each list is rendered once. */
const codeToolsOf = new WeakMap<readonly RegisteredTool[], CodeTools>();

/** Programs may not call tools that call tools, so `run_program` is the only one that is useful here. */
function codeTools(tools: readonly RegisteredTool[]): CodeTools {
  let known = codeToolsOf.get(tools);
  if (!known) {
    const programs = tools.filter(({ binding }) => binding.kind === 'program');
    const shown = [...CODE_SURFACE, ...programs].toSorted((a, b) => (a.name < b.name ? -1 : 1));
    known = { shown, callable: tools.filter((tool) => !callsTools(tool)) };
    codeToolsOf.set(tools, known);
  }
  return known;
}

/** The same for every name, so that it reveals nothing about tools that the caller may not see. */
function notInCodeMode(name: string): ProtocolError {
  const shown = name.slice(0, 200);
  const hint = `In code mode tools are called by programs: run_program with code such as tools[${JSON.stringify(shown)}](key=value)`;
  return new ProtocolError(ProtocolErrorCode.InvalidParams, `Unknown tool: ${shown}. ${hint}`);
}
