import type { BoundedThreads } from './threads/bounded-threads.js';

/**
 * What a process hands to the tools it serves. A tool names what it needs and gets exactly that, typed; a process that
 * serves a tool without having what it needs does not start.
 */
export interface ToolServices {
  /** Worker threads with a time bound, for work whose cost cannot be known (patterns, queries). */
  threads: BoundedThreads;
}

/** Name of a service. */
export type ServiceName = keyof ToolServices;
