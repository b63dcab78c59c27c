/** Messages between the service process and its sandbox-host child, over IPC with structured clone. */
import type { Milliseconds } from '@toolfleet/contracts';
import type { RunReply, RunRequest, RunStatus } from './python/result-frame.js';
import type { InterpreterSource } from './wasi/interpreter.js';

/** Everything the child has to know; its environment is empty. */
export interface HostSettings {
  interpreter: InterpreterSource;
  /** Path of the compiled sandbox-thread. */
  threadScript: string;
  threads: number;
  outputCap: number;
  memoryLimitMb: number;
  memoryBudgetMb: number;
  /** Longest time to warm up the interpreter. */
  warmUpMs: Milliseconds;
  /** False: ready first, warm-up while it serves; for a host that replaces one that died. */
  warmUpFirst: boolean;
}

export type ToHost =
  | { type: 'start'; settings: HostSettings }
  | { type: 'run'; id: string; request: RunRequest }
  | { type: 'cancel'; id: string };

export type FromHost =
  | { type: 'ready'; version: string; bootMs: Milliseconds; warmUpMs: Milliseconds }
  | { type: 'failed'; message: string }
  | { type: 'started'; id: string }
  | { type: 'progress'; id: string; lines: string }
  | { type: 'reply'; id: string; reply: RunReply }
  | { type: 'killed'; reason: RunStatus; killMs: Milliseconds }
  | { type: 'health'; rssMb: number; runs: number };
