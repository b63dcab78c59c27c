import { defineTool } from '../builtin-tool.js';
import { ok } from '../outcome.js';
import { FILE_TOOL, PATH } from './file-tool.js';

/** `file_delete`: removes a file, or a directory with all that is in it where asked to. */
export const fileDelete = defineTool<{ path: string; recursive?: boolean }, ['workspaces']>({
  ...FILE_TOOL,
  name: 'file_delete',
  description:
    'Delete a file or an empty directory of the project workspace; with recursive a directory and all in it. Cannot be undone.',
  inputSchema: {
    type: 'object',
    properties: {
      path: PATH,
      recursive: { type: 'boolean', default: false, description: 'Delete a directory with everything in it' },
    },
    required: ['path'],
    additionalProperties: false,
  },
  inputExamples: [{ path: 'notes/old.md' }],
  dangerous: true,
  needs: ['workspaces'],
  async handler({ path, recursive = false }, run) {
    const deleted = await run.workspaces.of(run.context).remove(path, recursive);
    return ok({ path, deleted }, `Deleted ${path} (${deleted} entr${deleted === 1 ? 'y' : 'ies'})`);
  },
});
