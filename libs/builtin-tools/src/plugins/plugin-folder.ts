import { lstat, readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { distrustReason } from '@toolfleet/contracts/trusted-file';
import { TOOL_NAME_PATTERN, TOOLSETS } from '@toolfleet/contracts/tool-definition';
import { compileSchema, sha256Hex } from '@toolfleet/bounded-schema';
import type { BuiltinTool } from '../builtin-tool.js';
import { PLUGIN_SERVICES, type PluginProcesses } from './plugin-processes.js';

/** Changes of the folder since the previous scan. */
interface PluginChanges {
  /** Tools of new and changed files. */
  added: BuiltinTool[];
  /** Names of tools with a file that was deleted or no longer defines them. */
  removed: string[];
  /** Files that cannot be loaded; the tools of their last valid version stay. */
  faults: { file: string; message: string }[];
}

interface LoadedFile {
  stamp: string;
  tools: string[];
  /** Why this version cannot be loaded; the tools come from the last valid one. */
  fault?: string;
}

/** A plugin file as found in the folder. */
interface PresentFile {
  /** Changes with the file. */
  stamp: string;
  /** Why the file must not be loaded; null if it may. */
  distrust: string | null;
}

const PLUGIN_FILE = /^[^.].*\.tool\.(?:mjs|js|ts|mts)$/;

/**
 * A folder of plugin files, each with one or more tools, loaded into processes of their own and reloaded when a file changes.
 * Plugins run with the operating-system rights of the executor. Therefore the folder and its files must belong to the user of the process or to
 * root, and must not be writable by others; symbolic links are not followed.
 */
export class PluginFolder {
  private readonly files = new Map<string, LoadedFile>();
  /** The last reported reason why the whole folder is not read. */
  private folderDistrust: string | null = null;

  constructor(
    private readonly folder: string,
    /** Names of the builtin tools, reserved from plugins. */
    private readonly reserved: ReadonlySet<string>,
    private readonly processes: Pick<PluginProcesses, 'tools'>,
  ) {}

  /** Files that cannot be loaded, including those reported by earlier scans. */
  faults(): PluginChanges['faults'] {
    if (this.folderDistrust !== null) return [{ file: this.folder, message: this.folderDistrust }];
    return [...this.files].flatMap(([file, { fault }]) => (fault === undefined ? [] : [{ file, message: fault }]));
  }

  /** Scans the folder and loads changed files. A missing folder counts as empty; an untrusted one changes nothing. */
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
    // Remembered even if it fails, so that a broken file is reported only once.
    this.files.set(file, { stamp, tools: known?.tools ?? [] });
    try {
      if (distrust !== null) throw new Error(distrust);
      const build = sha256Hex(await readFile(join(this.folder, file), 'utf8')).slice(0, 16);
      // The query makes each version a separate module. Old versions stay in memory until their process is idle.
      const tools = await this.processes.tools(`${pathToFileURL(join(this.folder, file)).href}?v=${stamp}`);
      for (const tool of tools) this.check(tool, file);
      const names = tools.map((tool) => tool.metadata.name);
      changes.added.push(...tools.map((tool) => ({ ...tool, build })));
      changes.removed.push(...(known?.tools ?? []).filter((name) => !names.includes(name)));
      this.files.set(file, { stamp, tools: names });
    } catch (error) {
      const message = error instanceof Error ? error.message : String(error);
      this.files.set(file, { stamp, tools: known?.tools ?? [], fault: message });
      changes.faults.push({ file, message });
    }
  }

  private check(tool: BuiltinTool, file: string): void {
    const { name, description, inputSchema, toolset = 'compute' } = tool.metadata;
    if (!TOOL_NAME_PATTERN.test(name))
      throw new Error(`name ${JSON.stringify(name)} must match ${TOOL_NAME_PATTERN.source}`);
    if (this.reserved.has(name)) throw new Error(`${name} is the name of a builtin tool`);
    const other = [...this.files].find(([otherFile, loaded]) => otherFile !== file && loaded.tools.includes(name));
    if (other) throw new Error(`${name} is already defined by ${other[0]}`);
    if (typeof description !== 'string' || description.trim() === '')
      throw new Error(`${name} has no description, which models need`);
    if (!TOOLSETS.includes(toolset))
      throw new Error(`${name} has an unknown toolset ${JSON.stringify(toolset)}: use one of ${TOOLSETS.join(', ')}`);
    const foreign = tool.needs.filter((need) => !PLUGIN_SERVICES.some((offered) => offered === need));
    if (foreign.length > 0)
      throw new Error(`${name} needs ${foreign.join(', ')}: plugins can need ${PLUGIN_SERVICES.join(', ')}`);
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

/** Ignores the error "does not exist" and rethrows all others. */
function ignoreMissing(error: NodeJS.ErrnoException): undefined {
  if (error.code !== 'ENOENT') throw error;
}
