import { ToolError } from '@toolfleet/contracts';

/** Names of our own files inside a workspace (drafts); lists do not show them, so no tool may make one. */
export const RESERVED_NAME = '.toolfleet-';

/** Longest path in UTF-8 bytes, and longest name in it (the limit of common file systems). */
const MAX_PATH_BYTES = 1_024;
const MAX_NAME_BYTES = 255;
const MAX_DEPTH = 32;

/**
 * Names of a path inside a workspace. A path is relative, with `/` between names; `.` is nothing, everything that
 * points elsewhere is refused before a file system sees it: `..`, absolute paths, drive letters, backslashes (a separator on
 * other systems), NUL and control characters. `[]` is the workspace itself.
 * @throws ToolError TOOL_ERROR `Path is outside project directory`, or what else is wrong
 */
export function workspacePath(path: string): string[] {
  if (path.startsWith('/') || path.startsWith('~') || path.includes('\\') || /^[A-Za-z]:/.test(path))
    throw outside(path);
  if (/\p{Cc}/u.test(path)) throw new ToolError('TOOL_ERROR', { message: 'Path contains control characters' });
  if (!path.isWellFormed()) throw new ToolError('TOOL_ERROR', { message: 'Path is not valid Unicode' });
  const names = path.split('/').filter((name) => name !== '' && name !== '.');
  if (names.includes('..')) throw outside(path);
  if (names.some((name) => name.toLowerCase().startsWith(RESERVED_NAME)))
    throw new ToolError('TOOL_ERROR', { message: `Names that begin with ${RESERVED_NAME} are reserved` });
  if (
    Buffer.byteLength(path) > MAX_PATH_BYTES ||
    names.length > MAX_DEPTH ||
    names.some((name) => Buffer.byteLength(name) > MAX_NAME_BYTES)
  ) {
    throw new ToolError('TOOL_ERROR', {
      message: `Path is too long (at most ${MAX_PATH_BYTES} bytes, ${MAX_DEPTH} levels)`,
    });
  }
  return names;
}

/** As `workspacePath`, for a path that must name something inside the workspace. */
export function filePath(path: string): string[] {
  const names = workspacePath(path);
  if (names.length === 0)
    throw new ToolError('TOOL_ERROR', { message: 'Path must name a file, not the workspace itself' });
  return names;
}

function outside(path: string): ToolError {
  return new ToolError('TOOL_ERROR', {
    message: 'Path is outside project directory',
    details: { path: path.slice(0, 200) },
  });
}
