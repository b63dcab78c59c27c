import { readdir, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { TOOL_NAME_PATTERN, ToolError, TOOLSETS } from '@toolfleet/contracts';
import { compileSchema, sha256Hex } from '@toolfleet/schema';
import { boundsOf } from '../bounded/bounded-work.js';
import { defineTool, type BuiltinTool } from '../builtin-tool.js';
import { ok } from '../outcome.js';

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

const PLUGIN_FILE = /^[^.].*\.tool\.(?:mjs|js|ts|mts)$/;

/** A folder with one tool (or a few) per file, loaded into the process and loaded again when a file changes. */
export class PluginFolder {
  private readonly files = new Map<string, LoadedFile>();

  constructor(
    private readonly folder: string,
    /** Names that files may not take: the builtin ones. */
    private readonly reserved: ReadonlySet<string>,
  ) {}

  /** Looks into the folder; a missing folder is an empty one. */
  async look(): Promise<PluginChanges> {
    const changes: PluginChanges = { added: [], removed: [], faults: [] };
    const present = await this.present();
    for (const [file, { tools }] of this.files) {
      if (present.has(file)) continue;
      this.files.delete(file);
      changes.removed.push(...tools);
    }
    for (const [file, stamp] of present) {
      const known = this.files.get(file);
      if (known?.stamp !== stamp) await this.load(file, stamp, known, changes);
    }
    return changes;
  }

  private async load(
    file: string,
    stamp: string,
    known: LoadedFile | undefined,
    changes: PluginChanges,
  ): Promise<void> {
    // Remembered either way: a broken file is told once, not at every look.
    this.files.set(file, { stamp, tools: known?.tools ?? [] });
    try {
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

  private async present(): Promise<Map<string, string>> {
    const names = await readdir(this.folder).catch((error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') return [];
      throw error;
    });
    const files = names.filter((name) => PLUGIN_FILE.test(name)).toSorted();
    const stamps = await Promise.all(files.map((name) => stat(join(this.folder, name)).catch(() => undefined)));
    return new Map(
      files.flatMap((name, index) => {
        const stats = stamps[index];
        return stats?.isFile() ? [[name, `${stats.mtimeMs}-${stats.size}`] as const] : [];
      }),
    );
  }
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
