import { ToolError } from '@toolfleet/contracts';
import { boundsOf } from '../bounded/bounded-work.js';
import { defineTool, fail, ok, type BuiltinTool } from '../builtin-tool.js';

/** Passed to a plugin file, which therefore needs no imports and no build: `export default ({ defineTool, ok }) => …`. */
interface PluginApi {
  defineTool: typeof defineTool;
  ok: typeof ok;
  fail: typeof fail;
  ToolError: typeof ToolError;
  boundsOf: typeof boundsOf;
}
const PLUGIN_API: PluginApi = { defineTool, ok, fail, ToolError, boundsOf };

/** Default export of a plugin file: tools, or a function that creates them. */
export type Plugin =
  | BuiltinTool
  | BuiltinTool[]
  | ((api: PluginApi) => BuiltinTool | BuiltinTool[] | Promise<BuiltinTool | BuiltinTool[]>);

/**
 * The tools of a plugin file. Each version of a file is a module of its own.
 * @param module URL of this version
 * @throws Error if it cannot be loaded or does not define tools
 */
export async function readTools(module: string): Promise<BuiltinTool[]> {
  const { default: plugin } = (await import(module)) as { default?: Plugin };
  if (plugin === undefined) throw new Error('has no default export');
  const made = typeof plugin === 'function' ? await plugin(PLUGIN_API) : plugin;
  const tools = Array.isArray(made) ? made : [made];
  for (const tool of tools) {
    if (typeof tool?.handle !== 'function' || typeof tool.metadata?.name !== 'string')
      throw new Error('its default export is not what defineTool returns');
  }
  return tools;
}
