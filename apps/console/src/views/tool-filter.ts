import type { ToolKind, CatalogTool } from '@toolfleet/client';

/** Selects the shown tools. Empty values match all. */
export interface ToolChoice {
  text: string;
  kind: string;
  category: string;
  only: keyof typeof SHOWN;
}

/** Name of each choice of `only`, and the tools that it shows. */
export const SHOWN = {
  '': ['All tools', () => true],
  available: ['Available', ({ available }) => available],
  unavailable: ['Unavailable', ({ available }) => !available],
  callable: ['I may call', ({ callable, available }) => callable && available],
  dangerous: ['Dangerous', ({ dangerous }) => dangerous],
} as const satisfies Record<string, readonly [string, (tool: CatalogTool) => boolean]>;

export const KIND_NAMES: Readonly<Record<ToolKind, string>> = {
  builtin: 'Builtin',
  python: 'Python',
  program: 'Programs',
  result: 'Results',
  mcp: 'MCP',
  openapi: 'OpenAPI',
};

/** Matching tools, first by the start of the name, then by the rest of it. */
export function filterTools(tools: readonly CatalogTool[], { text, kind, category, only }: ToolChoice): CatalogTool[] {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const found = tools.filter(
    (tool) =>
      (kind === '' || tool.kind === kind) &&
      (category === '' || tool.category === category) &&
      SHOWN[only][1](tool) &&
      words.every((word) => searchText(tool).includes(word)),
  );
  const first = words[0];
  if (first === undefined) return found;
  const rank = ({ name }: CatalogTool) =>
    name.toLowerCase().startsWith(first) ? 0 : name.toLowerCase().includes(first) ? 1 : 2;
  return found.toSorted((a, b) => rank(a) - rank(b));
}

/** Every category once, sorted. */
export function listCategories(tools: readonly CatalogTool[]): string[] {
  return [...new Set(tools.map(({ category }) => category))].toSorted();
}

const searchText = ({ name, description, category, tags, source }: CatalogTool): string =>
  [name, description, category, source.name, ...tags].join(' ').toLowerCase();
