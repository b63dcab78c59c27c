import type { CancelTimer } from '@toolfleet/resilience';
import type { StoredRegistration } from '../definition-store.js';
import type { McpEntry } from './mcp-entry.js';

/** State of one server, for operators. */
export interface McpServerState {
  server: string;
  /** `auth_failed` and `away` keep the tools listed. */
  state: 'pending' | 'ok' | 'auth_failed' | 'away';
  tools: number;
  error?: string;
}

/** One server that is asked for its tools again and again. */
export interface WatchedServer {
  readonly entry: McpEntry;
  /** Of a server that was registered at run time. */
  readonly registration: StoredRegistration | undefined;
  state: McpServerState;
  failures: number;
  cancel?: CancelTimer;
  /** It is being asked. */
  isLooking: boolean;
  /** Its list changed while it was asked: the answer may be from before. */
  looksAgain: boolean;
}

/** A server nobody has asked yet. */
export function newlyWatched(entry: McpEntry, registration?: StoredRegistration): WatchedServer {
  const state: McpServerState = { server: entry.name, state: 'pending', tools: 0 };
  return { entry, registration, state, failures: 0, isLooking: false, looksAgain: false };
}
