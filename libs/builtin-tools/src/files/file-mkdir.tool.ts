import { defineTool } from '../builtin-tool.js';
import { ok } from '../outcome.js';
import { FILE_TOOL, PATH } from './file-tool.js';

/** `file_mkdir`. Adds nothing but an empty directory, so it is not dangerous. */
export const fileMkdir = defineTool<{ path: string }, ['workspaces']>({
  ...FILE_TOOL,
  name: 'file_mkdir',
  description: 'Make a directory of the project workspace, with missing parents. No fault when it exists.',
  inputSchema: { type: 'object', properties: { path: PATH }, required: ['path'], additionalProperties: false },
  inputExamples: [{ path: 'reports/2026' }],
  idempotent: true,
  cacheTtlSeconds: 0,
  needs: ['workspaces'],
  async handler({ path }, run) {
    await run.workspaces.of(run.context).makeDirectory(path);
    return ok({ path, created: true }, `Directory ${path} is there`);
  },
});
