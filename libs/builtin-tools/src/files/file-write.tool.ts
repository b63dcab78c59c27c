import { ToolError } from '@toolfleet/contracts';
import { closed, defaulted, flag, text, textChoice } from '@toolfleet/contracts/json-schema';
import { TextSearch } from '@toolfleet/contracts/text';
import { defineTool, ok } from '../builtin-tool.js';
import { decodeText, encodeText, FILE_TOOL, PATH, WRITABLE } from './file-tool.js';
import { WRITE_MODES } from './workspace-store.js';

/** `file_write`: creates, replaces or extends a file. */
export const fileWrite = defineTool({
  ...FILE_TOOL,
  name: 'file_write',
  description:
    'Write a file of the project workspace; missing directories are made. Replaces the file unless mode says otherwise.',
  inputSchema: closed({
    path: PATH,
    // minLength 0, because an empty string is a value here, not a missing argument.
    content: text('The whole content; may be empty', { minLength: 0, maxLength: 8_000_000 }),
    encoding: defaulted(textChoice(WRITABLE, 'How content becomes bytes; base64 for binary files'), 'utf-8'),
    mode: defaulted(textChoice(WRITE_MODES, 'create fails when the file exists'), 'overwrite'),
  }),
  annotations: { readOnlyHint: false, destructiveHint: true, openWorldHint: false },
  inputExamples: [{ path: 'notes/todo.md', content: '- call back\n' }],
  dangerous: true,
  needs: ['workspaces'],
  async handler({ path, content, encoding, mode }, run) {
    const bytes = encodeText(content, encoding);
    await run.workspaces.of(run).write(path, bytes, mode);
    return ok({ path, bytes: bytes.length, mode }, `Wrote ${bytes.length} bytes to ${path}`);
  },
});

/** Maximum number of replacements, and maximum length of a result in UTF-16 units; both take a few milliseconds. */
const MAX_REPLACED = 100_000;
const MAX_RESULT = 16 * 1024 * 1024;

/** `file_edit`: replaces text that must occur exactly once. */
export const fileEdit = defineTool({
  ...FILE_TOOL,
  name: 'file_edit',
  description:
    'Replace text in a UTF-8 file of the project workspace. old_text must occur exactly once (include lines around it), ' +
    'unless replace_all is true.',
  inputSchema: closed({
    path: PATH,
    old_text: text('Text to replace, exactly as in the file', { minLength: 1, maxLength: 1_000_000 }),
    // minLength 0, because an empty string is a value here, not a missing argument.
    new_text: text('Text to put there; empty deletes old_text', { minLength: 0, maxLength: 1_000_000 }),
    replace_all: defaulted(flag('Replace every occurrence'), false),
  }),
  annotations: { readOnlyHint: false, destructiveHint: true, openWorldHint: false },
  inputExamples: [{ path: 'src/main.py', old_text: 'debug = True', new_text: 'debug = False' }],
  dangerous: true,
  needs: ['workspaces'],
  async handler({ path, old_text: oldText, new_text: newText, replace_all: replaceAll }, run) {
    let replaced = 0;
    await run.workspaces.of(run).change(path, (before) => {
      const whole = decodeText(before, 'utf-8');
      const pieces = new TextSearch(oldText).split(whole, MAX_REPLACED + 1);
      replaced = pieces.length - 1;
      if (replaced === 0) throw new ToolError('TOOL_ERROR', { message: `old_text does not occur in ${path}` });
      if (replaced > MAX_REPLACED)
        throw new ToolError('TOOL_ERROR', { message: `old_text occurs more than ${MAX_REPLACED} times in ${path}` });
      if (replaced > 1 && !replaceAll) {
        throw new ToolError('TOOL_ERROR', {
          message: `old_text occurs ${replaced} times in ${path}: include more of its surroundings, or set replace_all`,
        });
      }
      if (whole.length + replaced * (newText.length - oldText.length) > MAX_RESULT)
        throw new ToolError('TOOL_ERROR', { message: `The result would have more than ${MAX_RESULT} characters` });
      return Buffer.from(pieces.join(newText));
    });
    return ok({ path, replaced }, `Replaced ${replaced} occurrence(s) in ${path}`);
  },
});

/** `file_mkdir`: creates a directory. Not dangerous, because it only adds an empty directory. */
export const fileMkdir = defineTool({
  ...FILE_TOOL,
  name: 'file_mkdir',
  description: 'Create a directory of the project workspace, with missing parents. Succeeds if it already exists.',
  inputSchema: closed({ path: PATH }),
  annotations: { readOnlyHint: false, destructiveHint: false, openWorldHint: false },
  inputExamples: [{ path: 'reports/2026' }],
  idempotent: true,
  cacheTtlSeconds: 0,
  needs: ['workspaces'],
  async handler({ path }, run) {
    await run.workspaces.of(run).makeDirectory(path);
    return ok({ path, created: true }, `Directory ${path} exists`);
  },
});

/** `file_delete`: removes a file, or a directory with its content if `recursive` is set. */
export const fileDelete = defineTool({
  ...FILE_TOOL,
  name: 'file_delete',
  description:
    'Delete a file or an empty directory of the project workspace; with recursive, a directory and its content. Cannot be undone.',
  inputSchema: closed({
    path: PATH,
    recursive: defaulted(flag('Delete a directory with everything in it'), false),
  }),
  annotations: { readOnlyHint: false, destructiveHint: true, openWorldHint: false },
  inputExamples: [{ path: 'notes/old.md' }],
  dangerous: true,
  needs: ['workspaces'],
  async handler({ path, recursive }, run) {
    const deleted = await run.workspaces.of(run).remove(path, recursive);
    return ok({ path, deleted }, `Deleted ${path} (${deleted} entr${deleted === 1 ? 'y' : 'ies'})`);
  },
});
