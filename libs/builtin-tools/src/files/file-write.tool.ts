import { defineTool } from '../builtin-tool.js';
import { ok } from '../outcome.js';
import { FILE_TOOL, PATH } from './file-tool.js';
import { encodeText, WRITABLE, type Writable } from './text-encoding.js';
import type { WriteMode } from './workspace-store.js';

/** `file_write`: creates a file, replaces it, or appends to it. */
export const fileWrite = defineTool<
  { path: string; content: string; encoding?: Writable; mode?: WriteMode },
  ['workspaces']
>({
  ...FILE_TOOL,
  name: 'file_write',
  description:
    'Write a file of the project workspace; missing directories are made. Replaces the file unless mode says otherwise.',
  inputSchema: {
    type: 'object',
    properties: {
      path: PATH,
      // minLength 0: an empty text is a value here, not a missing argument.
      content: { type: 'string', minLength: 0, maxLength: 8_000_000, description: 'The whole content; may be empty' },
      encoding: {
        type: 'string',
        enum: [...WRITABLE],
        default: 'utf-8',
        description: 'How content becomes bytes; base64 for binary files',
      },
      mode: {
        type: 'string',
        enum: ['overwrite', 'append', 'create'],
        default: 'overwrite',
        description: 'create fails when the file exists',
      },
    },
    required: ['path', 'content'],
    additionalProperties: false,
  },
  inputExamples: [{ path: 'notes/todo.md', content: '- call back\n' }],
  dangerous: true,
  needs: ['workspaces'],
  async handler({ path, content, encoding = 'utf-8', mode = 'overwrite' }, run) {
    const bytes = encodeText(content, encoding);
    await run.workspaces.of(run.context).write(path, bytes, mode);
    return ok({ path, bytes: bytes.length, mode }, `Wrote ${bytes.length} bytes to ${path}`);
  },
});
