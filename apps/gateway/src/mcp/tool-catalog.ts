import { ProtocolError, ProtocolErrorCode, type Tool } from '@modelcontextprotocol/server';
import type { JsonObject } from '@toolfleet/contracts';
import type { RegisteredTool } from '@toolfleet/contracts/tool-definition';
import { renderTool } from './render-mcp.js';

/** One page of the list, rendered once. */
export interface ListPage {
  tools: Tool[];
  nextCursor?: string;
  /** The page as JSON without braces (`"tools":[…],"nextCursor":…`): what takes the time in a long list. */
  json: string;
}

/** What one audience sees: everything that is derived from its tools, made once per change of the catalog. */
export interface Audience {
  /** By cursor; the first page is under the empty one. */
  pages: ReadonlyMap<string, ListPage>;
  tools: ReadonlyMap<string, RegisteredTool>;
  /** Tools with parameters that travel as `Mcp-Param-*` headers, too. */
  headerTools: ReadonlySet<string>;
}

/** Tools per page. Clients fetch all pages; a page stays well below the message size most of them accept. */
const PAGE_TOOLS = 1_000;

/**
 * Prebuilt `tools/list` answers. The catalog hands out the same array until something changes, so the answer is kept with
 * the array and dies with it; nothing is rebuilt per request.
 */
export class ToolCatalogView {
  private readonly built = new WeakMap<readonly RegisteredTool[], Audience>();

  /** @param extra fixture tools listed for everybody */
  constructor(private readonly extra: readonly RegisteredTool[] = []) {}

  of(tools: readonly RegisteredTool[]): Audience {
    let audience = this.built.get(tools);
    if (!audience) this.built.set(tools, (audience = build([...tools, ...this.extra])));
    return audience;
  }
}

/** The page behind a cursor. @throws ProtocolError -32602 for a cursor that is not ours */
export function pageAt(audience: Audience, cursor: string | undefined): ListPage {
  const page = audience.pages.get(cursor ?? '');
  if (!page) throw new ProtocolError(ProtocolErrorCode.InvalidParams, 'Unknown cursor; list again from the start');
  return page;
}

/** JSON Schema of a tool's arguments, for the check of `Mcp-Param-*` headers. */
export function inputSchemaOf(audience: Audience, name: string): JsonObject | undefined {
  return audience.tools.get(name)?.input_schema;
}

function build(all: readonly RegisteredTool[]): Audience {
  const sorted = all.toSorted((a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0));
  const pages = new Map<string, ListPage>();
  for (let from = 0, cursor = ''; ;) {
    const slice = sorted.slice(from, from + PAGE_TOOLS);
    const last = slice.at(-1);
    const more = from + PAGE_TOOLS < sorted.length && last;
    const nextCursor = more ? Buffer.from(last.name).toString('base64url') : undefined;
    const tools = slice.map(renderTool);
    const page = { tools, ...(nextCursor === undefined ? {} : { nextCursor }) };
    pages.set(cursor, { ...page, json: JSON.stringify(page).slice(1, -1) });
    if (nextCursor === undefined) break;
    from += PAGE_TOOLS;
    cursor = nextCursor;
  }
  const headerTools = sorted.filter((tool) => JSON.stringify(tool.input_schema).includes('"x-mcp-header"'));
  return {
    pages,
    tools: new Map(sorted.map((tool) => [tool.name, tool])),
    headerTools: new Set(headerTools.map(({ name }) => name)),
  };
}
