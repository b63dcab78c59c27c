import { ToolError, type EpochMs } from '@toolfleet/contracts';

/** A file or directory of a workspace. */
export interface Entry {
  /** Names of the path, relative to the workspace. */
  names: string[];
  type: 'file' | 'directory';
  /** Bytes; 0 for directories. */
  size: number;
  modifiedAt: EpochMs;
}

/** If the file exists, it is replaced or extended, or the write fails. */
export const WRITE_MODES = ['overwrite', 'append', 'create'] as const;
export type WriteMode = (typeof WRITE_MODES)[number];

/**
 * Stores the files of workspaces. Callers have checked the names with `workspacePath`; a store still never follows a link,
 * which could lead out of the workspace. Errors are ToolErrors with paths relative to the workspace, never host paths.
 */
export abstract class WorkspaceStore {
  /** True if anything was ever written to the workspace. */
  abstract exists(workspace: string): Promise<boolean>;
  /** Undefined if the path does not exist. */
  abstract stat(workspace: string, names: readonly string[]): Promise<Entry | undefined>;
  abstract read(workspace: string, names: readonly string[], maxBytes: number): Promise<Buffer>;
  /** Creates missing parents. `overwrite` is atomic: readers see the old or the new content. */
  abstract write(workspace: string, names: readonly string[], bytes: Uint8Array, mode: WriteMode): Promise<void>;
  /**
   * Calls `rewrite` to compute the new content of a file from the old, and calls it again if another writer changed the file
   * before `replace` did.
   */
  abstract change(
    workspace: string,
    names: readonly string[],
    maxBytes: number,
    rewrite: (before: Buffer, replace: (after: Uint8Array) => Promise<void>) => Promise<void>,
  ): Promise<void>;
  abstract makeDirectory(workspace: string, names: readonly string[]): Promise<void>;
  /** Removes a file, an empty directory, or with `recursive` a tree. Returns the number of removed entries. */
  abstract remove(workspace: string, names: readonly string[], recursive: boolean): Promise<number>;
  /** Number of files below a folder of workspaces, such as `acme` or `acme/u-ann`. */
  abstract countFiles(folder: string): Promise<number>;
  /**
   * Removes a folder of workspaces with everything in it, until `isOver`; may be repeated.
   * @returns the number of files removed, and whether some are left
   */
  abstract removeFolder(folder: string, isOver: () => boolean): Promise<{ files: number; more: boolean }>;
  /** Entries below a directory in order of names, parents before children; at most `limit`. */
  abstract list(workspace: string, names: readonly string[], recursive: boolean, limit: number): Promise<Entry[]>;
}

/** The errors that all stores share. */
export const storeErrors = {
  missing: (names: readonly string[]) => tool(`No such file or directory: ${shown(names)}`, 'missing'),
  exists: (names: readonly string[]) => tool(`Already exists: ${shown(names)}`, 'exists'),
  notAFile: (names: readonly string[]) => tool(`Not a file: ${shown(names)}`, 'not_a_file'),
  notADirectory: (names: readonly string[]) => tool(`Not a directory: ${shown(names)}`, 'not_a_directory'),
  notEmpty: (names: readonly string[]) => tool(`Directory is not empty: ${shown(names)} (use recursive)`, 'not_empty'),
  tooLarge: (names: readonly string[], limit: number) =>
    tool(`File is larger than ${limit} bytes: ${shown(names)}`, 'too_large'),
  /** Links are never followed, because they could lead out of the workspace. */
  link: (names: readonly string[]) => tool('Path is outside project directory', 'link', names),
};

function tool(message: string, reason: string, names?: readonly string[]): ToolError {
  return new ToolError('TOOL_ERROR', {
    message,
    details: names ? { reason, path: shown(names) } : { reason },
    facts: reason === 'missing' ? { reason } : undefined,
  });
}

/** Another writer changed the file before `replace`; `untilUnchanged` retries. */
export class ChangedMeanwhile extends Error {}

/** Attempts of a change. */
const CHANGE_ATTEMPTS = 5;

/** Retries while other writers change the file in between. @throws ToolError after the last attempt */
export async function untilUnchanged(attempt: () => Promise<void>): Promise<void> {
  for (let left = CHANGE_ATTEMPTS; left > 0; left -= 1) {
    try {
      return await attempt();
    } catch (error) {
      if (!(error instanceof ChangedMeanwhile)) throw error;
    }
  }
  throw busy();
}

/** Other writers kept changing the file. */
export function busy(): ToolError {
  return new ToolError('TOOL_ERROR', { message: 'Other writers are changing this file: retry later' });
}

/** The path as shown in messages. */
function shown(names: readonly string[]): string {
  return names.length === 0 ? '.' : names.join('/');
}

/** Prefix of internal files in a workspace (drafts, locks). Lists hide them, and tools cannot create them. */
export const RESERVED_NAME = '.toolfleet-';

/** Maximum length of a path and of a name in UTF-8 bytes; the latter is the limit of common file systems. */
const MAX_PATH_BYTES = 1_024;
const MAX_NAME_BYTES = 255;
const MAX_DEPTH = 32;

/**
 * Splits a path into names; `[]` is the workspace itself. Paths are relative, with `/` as separator, and `.` is ignored.
 * Everything that could point elsewhere is refused before a file system sees it: `..`, absolute paths, drive letters,
 * backslashes (a separator on other systems), NUL and control characters.
 * @throws ToolError TOOL_ERROR `Path is outside project directory`, or with another reason
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

/** Like `workspacePath`, but refuses the workspace itself. */
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
