import type { Stats } from 'node:fs';
import { lstat, readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { ToolError } from '@toolfleet/contracts';
import { TOOL_NAME_PATTERN, TOOLSETS } from '@toolfleet/contracts/tool-definition';
import { compileSchema, sha256Hex } from '@toolfleet/schema';
import { boundsOf } from '../bounded/bounded-work.js';
import { defineTool, ok, type BuiltinTool } from '../builtin-tool.js';

/** What a plugin file gets, so that it needs no import of ours and no build: `export default ({ defineTool, ok }) => …`. */
export const PLUGIN_API = { defineTool, ok, ToolError, boundsOf } as const;
export type PluginApi = typeof PLUGIN_API;

/** Default export of a plugin file: tools, or a function that makes them. */
export type Plugin =
  | BuiltinTool
  | BuiltinTool[]
  | ((api: PluginApi) => BuiltinTool | BuiltinTool[] | Promise<BuiltinTool | BuiltinTool[]>);

/** What a look into the folder found changed since the one before. */
export interface PluginChanges {
  /** Tools of new and changed files. */
  added: BuiltinTool[];
  /** Names of tools that are gone: their file is, or no longer defines them. */
  removed: string[];
  /** Files that cannot be loaded; the tools of their last good version stay. */
  faults: { file: string; message: string }[];
}

interface LoadedFile {
  stamp: string;
  tools: string[];
}

/** A plugin file as found in the folder. */
interface PresentFile {
  /** Changes with the file. */
  stamp: string;
  /** Why the file is not loaded; null when it may be. */
  distrust: string | null;
}

const PLUGIN_FILE = /^[^.].*\.tool\.(?:mjs|js|ts|mts)$/;

/**
 * A folder with one tool (or a few) per file, loaded into the process and loaded again when a file changes. Plugins run with
 * all rights of the process, so the folder and its files must belong to the user of the process or to root and must not be
 * writable by anyone else; symbolic links are not followed.
 */
export class PluginFolder {
  private readonly files = new Map<string, LoadedFile>();
  /** The last reported reason why the whole folder is not read. */
  private folderDistrust: string | null = null;

  constructor(
    private readonly folder: string,
    /** Names that files may not take: the builtin ones. */
    private readonly reserved: ReadonlySet<string>,
  ) {}

  /** Looks into the folder; a missing folder is an empty one. A folder that is not trusted changes nothing. */
  async look(): Promise<PluginChanges> {
    const changes: PluginChanges = { added: [], removed: [], faults: [] };
    const distrust = await this.distrustOfFolder();
    if (distrust !== null && distrust !== this.folderDistrust)
      changes.faults.push({ file: this.folder, message: distrust });
    this.folderDistrust = distrust;
    if (distrust !== null) return changes;
    const present = await this.present();
    for (const [file, { tools }] of this.files) {
      if (present.has(file)) continue;
      this.files.delete(file);
      changes.removed.push(...tools);
    }
    for (const [file, found] of present) {
      const known = this.files.get(file);
      if (known?.stamp !== found.stamp) await this.load(file, found, known, changes);
    }
    return changes;
  }

  private async load(
    file: string,
    { stamp, distrust }: PresentFile,
    known: LoadedFile | undefined,
    changes: PluginChanges,
  ): Promise<void> {
    // Remembered either way: a broken file is told once, not at every look.
    this.files.set(file, { stamp, tools: known?.tools ?? [] });
    try {
      if (distrust !== null) throw new Error(distrust);
      const build = sha256Hex(await readFile(join(this.folder, file), 'utf8')).slice(0, 16);
      // A query makes a module of its own of each version; old ones stay in memory, which only matters while developing.
      const module = (await import(`${pathToFileURL(join(this.folder, file)).href}?v=${stamp}`)) as {
        default?: Plugin;
      };
      const tools = await toolsOf(module.default);
      for (const tool of tools) this.check(tool, file);
      const names = tools.map((tool) => tool.metadata.name);
      changes.added.push(...tools.map((tool) => ({ ...tool, build })));
      changes.removed.push(...(known?.tools ?? []).filter((name) => !names.includes(name)));
      this.files.set(file, { stamp, tools: names });
    } catch (error) {
      changes.faults.push({ file, message: error instanceof Error ? error.message : String(error) });
    }
  }

  private check(tool: BuiltinTool, file: string): void {
    const { name, description, inputSchema, toolset = 'compute' } = tool.metadata;
    if (!TOOL_NAME_PATTERN.test(name))
      throw new Error(`name ${JSON.stringify(name)} must match ${TOOL_NAME_PATTERN.source}`);
    if (this.reserved.has(name)) throw new Error(`${name} is the name of a builtin tool`);
    const other = [...this.files].find(([otherFile, loaded]) => otherFile !== file && loaded.tools.includes(name));
    if (other) throw new Error(`${name} is defined by ${other[0]} already`);
    if (typeof description !== 'string' || description.trim() === '')
      throw new Error(`${name} has no description: the model would not know what it is for`);
    if (!TOOLSETS.includes(toolset)) throw new Error(`${name} names an unknown toolset ${JSON.stringify(toolset)}`);
    if (inputSchema?.['type'] !== 'object') throw new Error(`inputSchema of ${name} must have "type": "object"`);
    compileSchema(inputSchema);
  }

  private async distrustOfFolder(): Promise<string | null> {
    const stats = await lstat(this.folder).catch(ignoreMissing);
    return stats ? distrustReason(stats, 'directory') : null;
  }

  private async present(): Promise<Map<string, PresentFile>> {
    const names = (await readdir(this.folder).catch(ignoreMissing)) ?? [];
    const files = names.filter((name) => PLUGIN_FILE.test(name)).toSorted();
    const found = await Promise.all(files.map((name) => lstat(join(this.folder, name)).catch(() => undefined)));
    return new Map(
      files.flatMap((name, index) => {
        const stats = found[index];
        if (!stats || stats.isDirectory()) return [];
        const distrust = distrustReason(stats, 'file');
        return [[name, { stamp: `${stats.mtimeMs}-${stats.size}${distrust ?? ''}`, distrust }] as const];
      }),
    );
  }
}

/** @throws every error but "does not exist" */
function ignoreMissing(error: NodeJS.ErrnoException): undefined {
  if (error.code !== 'ENOENT') throw error;
}

async function toolsOf(plugin: Plugin | undefined): Promise<BuiltinTool[]> {
  if (plugin === undefined) throw new Error('has no default export');
  const made = typeof plugin === 'function' ? await plugin(PLUGIN_API) : plugin;
  const tools = Array.isArray(made) ? made : [made];
  for (const tool of tools) {
    if (typeof tool?.handle !== 'function' || typeof tool.metadata?.name !== 'string')
      throw new Error('its default export is not what defineTool returns');
  }
  return tools;
}

const GROUP_WRITE = 0o020;
const OTHERS_WRITE = 0o002;

/**
 * Why code must not be loaded from a file or directory: it is a symbolic link or a special file, belongs to a user other than
 * that of the process and root, or can be written by others. The rule of OpenSSH's `StrictModes`; a file that is writable by
 * its owner's private group (group id equals user id, the default of Debian and Red Hat with umask 002) passes.
 *
 * @param stats from `lstat`, so that links are seen as links
 * @param uid of the process; undefined on systems without user ids (Windows), where only the type is checked
 * @returns the reason, or null when the file may be used
 */
export function distrustReason(
  stats: Pick<Stats, 'uid' | 'gid' | 'mode' | 'isFile' | 'isDirectory' | 'isSymbolicLink'>,
  kind: 'file' | 'directory',
  uid = process.getuid?.(),
): string | null {
  if (stats.isSymbolicLink()) return 'is a symbolic link; put the file itself here';
  if (!(kind === 'file' ? stats.isFile() : stats.isDirectory())) return `is not a ${kind}`;
  if (uid === undefined) return null;
  if (stats.uid !== uid && stats.uid !== 0) {
    return `belongs to user ${stats.uid}; it must belong to user ${uid}, which runs this service, or to root`;
  }
  const isPrivateGroup = stats.uid !== 0 && stats.gid === stats.uid;
  if (stats.mode & OTHERS_WRITE || (stats.mode & GROUP_WRITE && !isPrivateGroup)) {
    return 'can be written by other users; run chmod go-w on it';
  }
  return null;
}
