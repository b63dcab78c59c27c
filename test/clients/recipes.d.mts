export const CLIENTS: Readonly<
  Record<string, { title: string; packages: readonly string[]; peer?: string; note?: string; python?: string }>
>;
export function readRecipe(client: string): { language: 'js' | 'json' | 'py' | 'sh'; lines: string[] };
export function countLines(client: string): number;
export function countCommands(client: string): number;
export function renderRecipes(): string;
