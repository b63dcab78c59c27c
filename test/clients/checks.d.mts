export interface Exchange {
  method: string;
  message?: { method?: string; params?: { _meta?: Record<string, unknown> } };
  status?: number;
  answer: string;
  closedEarly: boolean;
}
export interface Observed {
  tools: string[];
  shown: unknown[];
  pictures?: string[];
  error?: string;
  printed: string;
  progress: number;
  ended?: { code?: string };
  exchanges: Exchange[];
}
export interface Cell {
  outcome: 'passed' | 'not offered' | 'failed';
  evidence: string;
}
export const COLUMNS: readonly string[];
export const RUNS: readonly {
  steps: readonly { name: string; args: object }[];
  key?: string;
  cancels?: string;
  judge(observed: Observed): Record<string, Cell>;
}[];
