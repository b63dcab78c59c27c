import { ToolError } from '@toolfleet/contracts';
import { defineTool } from '../builtin-tool.js';
import { ok } from '../outcome.js';
import { FILE_TOOL, PATH, shownEntry } from './file-tool.js';
import { globMatcher, type GlobMatcher } from './glob.js';

const SHOWN = 1_000;
/** As many as a workspace can hold. */
const SCANNED = 10_000;

/** `file_list`: the entries of a directory. */
export const fileList = defineTool<{ path?: string; pattern?: string; recursive?: boolean }, ['workspaces']>({
  ...FILE_TOOL,
  name: 'file_list',
  description:
    'List files and directories of the project workspace, with size and time of change. pattern such as "*.md" or "src/**/*.ts" filters.',
  inputSchema: {
    type: 'object',
    properties: {
      path: { ...PATH, default: '.', description: 'Directory inside the workspace; "." is the whole workspace' },
      pattern: {
        type: 'string',
        minLength: 1,
        maxLength: 200,
        description: 'Glob; with "/" or "**" it looks into subdirectories, relative to path',
      },
      recursive: { type: 'boolean', default: false, description: 'Look into subdirectories' },
    },
    additionalProperties: false,
  },
  inputExamples: [{ path: '.', pattern: '**/*.py' }],
  idempotent: true,
  cacheTtlSeconds: 0,
  needs: ['workspaces'],
  async handler({ path = '.', pattern, recursive = false }, run) {
    const deep = recursive || (pattern !== undefined && pattern.includes('/'));
    const matches = pattern === undefined ? () => true : compileGlob(pattern);
    const depth = path.split('/').filter((name) => name !== '' && name !== '.').length;
    const entries = await run.workspaces.of(run.context).list(path, deep, SCANNED);
    const found = entries.filter((entry) => matches(entry.names.slice(depth)));
    const shown = found.slice(0, SHOWN).map(shownEntry);
    const text = shown
      .map((entry) => `${String(entry.path)}${entry.type === 'directory' ? '/' : `  ${String(entry.size)}`}`)
      .join('\n');
    return ok(
      { path, entries: shown, count: found.length, more: found.length > SHOWN },
      text === '' ? 'Nothing found' : text,
    );
  },
});

/** A matcher, or the tool's fault. */
export function compileGlob(pattern: string): GlobMatcher {
  try {
    return globMatcher(pattern);
  } catch (error) {
    throw new ToolError('TOOL_ERROR', { message: `Bad pattern: ${(error as Error).message}` });
  }
}
