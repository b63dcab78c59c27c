import { ProtocolError, ProtocolErrorCode, type Tool } from '@modelcontextprotocol/server';
import type { RegisteredTool } from '@toolfleet/contracts/tool-definition';
import { formatTool } from '@toolfleet/catalog';
import type { SchemaStyle } from '@toolfleet/bounded-schema';

/** One page of `tools/list`. */
interface ListPage {
  tools: Tool[];
  nextCursor?: string;
  /** The page as JSON without braces (`"tools":[…],"nextCursor":…`): serializing it dominates the cost of a long list. */
  json: string;
}

/** Everything derived from one set of visible tools, built once per change of the catalog. */
export interface RenderedCatalog {
  /** By cursor; the first page is under the empty one. */
  pages: ReadonlyMap<string, ListPage>;
  tools: ReadonlyMap<string, RegisteredTool>;
  /** Tools with parameters that also travel as `Mcp-Param-*` headers. */
  headerTools: ReadonlySet<string>;
}

/** Tools per page. Clients fetch all pages; a page stays well below the message size most of them accept. */
const PAGE_TOOLS = 1_000;

/**
 * Caches rendered catalogs. The catalog hands out the same array until something changes, so the array is the key, and an
 * entry is garbage-collected together with it.
 */
export class CatalogRenderer {
  private readonly rendered = new WeakMap<readonly RegisteredTool[], RenderedCatalog>();

  constructor(readonly style: SchemaStyle = 'defs') {}

  render(tools: readonly RegisteredTool[]): RenderedCatalog {
    let catalog = this.rendered.get(tools);
    if (!catalog) this.rendered.set(tools, (catalog = renderCatalog(tools, this.style)));
    return catalog;
  }
}

/** The page at a cursor. @throws ProtocolError -32602 for an unknown cursor */
export function readPage(catalog: RenderedCatalog, cursor: string | undefined): ListPage {
  const page = catalog.pages.get(cursor ?? '');
  if (!page) throw new ProtocolError(ProtocolErrorCode.InvalidParams, 'Unknown cursor; list again from the start');
  return page;
}

/** A tool as MCP clients see it. */
export function renderTool(tool: RegisteredTool, style?: SchemaStyle): Tool {
  const shown = formatTool(tool, 'mcp', style) as Tool;
  return tool.available === false ? { ...shown, _meta: { ...shown._meta, 'io.toolfleet/available': false } } : shown;
}

function renderCatalog(all: readonly RegisteredTool[], style: SchemaStyle): RenderedCatalog {
  const pages = new Map<string, ListPage>();
  for (let from = 0, cursor = ''; ;) {
    const slice = all.slice(from, from + PAGE_TOOLS);
    const last = slice.at(-1);
    const more = from + PAGE_TOOLS < all.length && last;
    const nextCursor = more ? Buffer.from(last.name).toString('base64url') : undefined;
    const page = { tools: slice.map((tool) => renderTool(tool, style)), nextCursor };
    pages.set(cursor, { ...page, json: JSON.stringify(page).slice(1, -1) });
    if (nextCursor === undefined) break;
    from += PAGE_TOOLS;
    cursor = nextCursor;
  }
  const headerTools = all.filter((tool) => JSON.stringify(tool.input_schema).includes('"x-mcp-header"'));
  return {
    pages,
    tools: new Map(all.map((tool) => [tool.name, tool])),
    headerTools: new Set(headerTools.map(({ name }) => name)),
  };
}
