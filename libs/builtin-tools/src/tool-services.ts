import type { AgentServices } from './agent/agent-services.js';
import type { Workspaces } from './files/workspaces.js';
import type { PageReader } from './web/page-reader.js';
import type { SearchProvider } from './web/search-provider.js';
import type { BoundedWork } from './bounded/bounded-work.js';

/**
 * What a process hands to the tools it serves. A tool names what it needs and gets exactly that, typed; a process that
 * serves a tool without having what it needs does not start.
 */
export interface ToolServices {
  /** Child processes with bounds on time and memory, for work whose cost cannot be known (patterns, queries). */
  bounded: BoundedWork;
  /** Fetches and reads web pages. */
  pages: PageReader;
  /** Searches the web. */
  search: SearchProvider;
  /** A chat model, and the fleet's tools on behalf of a caller. */
  agent: AgentServices;
  /** The workspaces file tools may touch. */
  workspaces: Workspaces;
}

/** Name of a service. */
export type ServiceName = keyof ToolServices;
