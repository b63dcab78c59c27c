import type { JsonObject } from '@toolfleet/contracts';
import type { Entry } from './workspace-store.js';

/** What all file tools have in common: `project_id` is injected, the model never sees it. */
export const FILE_TOOL = {
  version: '1.0.0',
  category: 'file',
  tags: ['files', 'workspace'],
  toolset: 'files',
  sessionAware: true,
  contextKeys: ['project_id'],
  timeoutSeconds: 15,
  rateLimit: 300,
} satisfies Partial<import('../builtin-tool.js').ToolMetadata>;

/** The `path` argument. */
export const PATH: JsonObject = {
  type: 'string',
  minLength: 1,
  maxLength: 1_024,
  description: 'Path inside the workspace, e.g. "src/main.py"; no absolute paths, no ".."',
};

/** An entry as tools show it. */
export function shownEntry(entry: Entry): JsonObject {
  return {
    path: entry.names.join('/'),
    type: entry.type,
    ...(entry.type === 'file' ? { size: entry.size } : {}),
    modified: new Date(entry.modifiedAt).toISOString(),
  };
}
