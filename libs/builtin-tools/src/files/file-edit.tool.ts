import { ToolError } from '@toolfleet/contracts';
import { TextSearch } from '@toolfleet/contracts/text';
import { defineTool } from '../builtin-tool.js';
import { ok } from '../outcome.js';
import { FILE_TOOL, PATH } from './file-tool.js';
import { decodeText } from './text-encoding.js';

interface FileEditArguments {
  path: string;
  old_text: string;
  new_text: string;
  replace_all?: boolean;
}

/** Most occurrences that are replaced, and longest result in UTF-16 units: what a process does in some milliseconds. */
const MAX_REPLACED = 100_000;
const MAX_RESULT = 16 * 1024 * 1024;

/** `file_edit`: replaces a piece of text, which must be there exactly once. */
export const fileEdit = defineTool<FileEditArguments, ['workspaces']>({
  ...FILE_TOOL,
  name: 'file_edit',
  description:
    'Replace text in a UTF-8 file of the project workspace. old_text must occur exactly once (include lines around it), ' +
    'unless replace_all is true.',
  inputSchema: {
    type: 'object',
    properties: {
      path: PATH,
      old_text: {
        type: 'string',
        minLength: 1,
        maxLength: 1_000_000,
        description: 'Text to replace, exactly as in the file',
      },
      // minLength 0: an empty text is a value here, not a missing argument.
      new_text: {
        type: 'string',
        minLength: 0,
        maxLength: 1_000_000,
        description: 'Text to put there; empty deletes old_text',
      },
      replace_all: { type: 'boolean', default: false, description: 'Replace every occurrence' },
    },
    required: ['path', 'old_text', 'new_text'],
    additionalProperties: false,
  },
  inputExamples: [{ path: 'src/main.py', old_text: 'debug = True', new_text: 'debug = False' }],
  dangerous: true,
  needs: ['workspaces'],
  async handler({ path, old_text: oldText, new_text: newText, replace_all: replaceAll = false }, run) {
    let replaced = 0;
    await run.workspaces.of(run.context).change(path, (before) => {
      const text = decodeText(before, 'utf-8');
      const pieces = new TextSearch(oldText).split(text, MAX_REPLACED + 1);
      replaced = pieces.length - 1;
      if (replaced === 0) throw new ToolError('TOOL_ERROR', { message: `old_text does not occur in ${path}` });
      if (replaced > MAX_REPLACED)
        throw new ToolError('TOOL_ERROR', { message: `old_text occurs more than ${MAX_REPLACED} times in ${path}` });
      if (replaced > 1 && !replaceAll) {
        throw new ToolError('TOOL_ERROR', {
          message: `old_text occurs ${replaced} times in ${path}: include more of its surroundings, or set replace_all`,
        });
      }
      if (text.length + replaced * (newText.length - oldText.length) > MAX_RESULT)
        throw new ToolError('TOOL_ERROR', { message: `The result would have more than ${MAX_RESULT} characters` });
      return Buffer.from(pieces.join(newText));
    });
    return ok({ path, replaced }, `Replaced ${replaced} occurrence(s) in ${path}`);
  },
});
