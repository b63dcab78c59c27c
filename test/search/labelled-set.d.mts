import type { RegisteredTool, ToolDefinition } from '@toolfleet/contracts/tool-definition';

export const queries: readonly { query: string; accept: string[]; part: string }[];

export function labelledTools(builtin: readonly ToolDefinition[], count: number): RegisteredTool[];

export function figures(
  rank: (query: string, limit: number) => readonly { name: string }[],
  part: string,
): { queries: number; hit1: number; hit5: number; mrr: number };
