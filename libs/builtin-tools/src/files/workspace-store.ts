import { ToolError, type EpochMs } from '@toolfleet/contracts';

/** A file or directory of a workspace. */
export interface Entry {
  /** Names from the workspace down. */
  names: string[];
  type: 'file' | 'directory';
  /** Bytes; 0 for directories. */
  size: number;
  modifiedAt: EpochMs;
}

/** What happens when a file is there already: replaced, added to, or a fault. */
export type WriteMode = 'overwrite' | 'append' | 'create';

/**
 * Where workspaces lie. Names were checked by `workspacePath`; a store still never follows a link out of its workspace. Faults
 * are ToolErrors with paths relative to the workspace, never paths of the host.
 */
export abstract class WorkspaceStore {
  /** True when anything was ever written to the workspace. */
  abstract exists(workspace: string): Promise<boolean>;
  /** Undefined when there is nothing. */
  abstract stat(workspace: string, names: readonly string[]): Promise<Entry | undefined>;
  abstract read(workspace: string, names: readonly string[], maxBytes: number): Promise<Buffer>;
  /** Makes missing parents. `overwrite` is atomic: readers see the old file or the new one. */
  abstract write(workspace: string, names: readonly string[], bytes: Uint8Array, mode: WriteMode): Promise<void>;
  /**
   * Lets `rewrite` make the new content of a file of the old one, and repeats that when somebody else changed the file before
   * `replace` did.
   */
  abstract change(
    workspace: string,
    names: readonly string[],
    maxBytes: number,
    rewrite: (before: Buffer, replace: (after: Uint8Array) => Promise<void>) => Promise<void>,
  ): Promise<void>;
  abstract makeDirectory(workspace: string, names: readonly string[]): Promise<void>;
  /** Removes a file, an empty directory, or with `recursive` a tree; the number of entries removed. */
  abstract remove(workspace: string, names: readonly string[], recursive: boolean): Promise<number>;
  /** Entries below a directory, parents before children, names in order; ends silently at `limit`. */
  abstract list(workspace: string, names: readonly string[], recursive: boolean, limit: number): Promise<Entry[]>;
}

/** Faults every store tells alike. */
export const fault = {
  missing: (names: readonly string[]) => tool(`No such file or directory: ${shown(names)}`, 'missing'),
  exists: (names: readonly string[]) => tool(`Already exists: ${shown(names)}`, 'exists'),
  notAFile: (names: readonly string[]) => tool(`Not a file: ${shown(names)}`, 'not_a_file'),
  notADirectory: (names: readonly string[]) => tool(`Not a directory: ${shown(names)}`, 'not_a_directory'),
  notEmpty: (names: readonly string[]) => tool(`Directory is not empty: ${shown(names)} (use recursive)`, 'not_empty'),
  tooLarge: (names: readonly string[], limit: number) =>
    tool(`File is larger than ${limit} bytes: ${shown(names)}`, 'too_large'),
  /** Links are never followed: they could lead out, now or a moment later. */
  link: (names: readonly string[]) => tool('Path is outside project directory', 'link', names),
};

function tool(message: string, reason: string, names?: readonly string[]): ToolError {
  return new ToolError('TOOL_ERROR', { message, details: { reason, ...(names ? { path: shown(names) } : {}) } });
}

/** `replace` found the file changed by somebody else; a store catches it and begins anew. */
export class ChangedMeanwhile extends Error {}

/** Times a change is begun anew. */
const CHANGE_ATTEMPTS = 5;

/** Runs an attempt again while others change the file in between. @throws ToolError when that does not end */
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

/** Others do not stop changing the file. */
export function busy(): ToolError {
  return new ToolError('TOOL_ERROR', { message: 'Others write to this file at the moment; repeat later' });
}

/** Path as the model wrote it. */
export function shown(names: readonly string[]): string {
  return names.length === 0 ? '.' : names.join('/');
}

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
