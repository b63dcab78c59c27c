import { defineTool } from '../builtin-tool.js';
import { ok } from '../outcome.js';
import { FILE_TOOL, PATH, shownEntry } from './file-tool.js';

/** `file_exists`: whether a path is there, and what it is. */
export const fileExists = defineTool<{ path: string }, ['workspaces']>({
  ...FILE_TOOL,
  name: 'file_exists',
  description: 'Tell whether a file or directory exists in the project workspace, with type and size.',
  inputSchema: { type: 'object', properties: { path: PATH }, required: ['path'], additionalProperties: false },
  inputExamples: [{ path: 'src/main.py' }],
  idempotent: true,
  cacheTtlSeconds: 0,
  needs: ['workspaces'],
  async handler({ path }, run) {
    const entry = await run.workspaces.of(run.context).stat(path);
    return ok(
      { exists: entry !== undefined, ...(entry ? shownEntry(entry) : { path }) },
      entry ? `${path} exists (${entry.type})` : `${path} does not exist`,
    );
  },
});
