import { ToolError } from '@toolfleet/contracts';
import { suggestion } from '@toolfleet/contracts/text';
import { boundsOf } from '../bounded/bounded-work.js';
import { AUTHORED_FIELDS, defineTool, fail, ok, type BuiltinTool } from '../builtin-tool.js';

/** Passed to a plugin file, which therefore needs no imports and no build: `export default ({ defineTool, ok }) => …`. */
interface PluginApi {
  defineTool: typeof defineTool;
  ok: typeof ok;
  fail: typeof fail;
  ToolError: typeof ToolError;
  boundsOf: typeof boundsOf;
}
const FIELDS: readonly string[] = [
  ...'name description category version toolset inputSchema rateLimit costMicroUsd needs handler'.split(' '),
  ...AUTHORED_FIELDS.map((name) => name.replaceAll(/_([a-z])/g, (_, letter: string) => letter.toUpperCase())),
];

/** As `defineTool`, for files that no compiler has read. @throws Error for a field that tools do not have, or no handler */
const defineChecked: typeof defineTool = (spec) => {
  const unknown = Object.keys(spec).find((field) => !FIELDS.includes(field));
  if (unknown !== undefined) throw new Error(`has the unknown field ${unknown}${suggestion(unknown, FIELDS)}`);
  if (typeof spec.handler !== 'function') throw new Error('needs a function as its handler');
  return defineTool(spec);
};
const PLUGIN_API: PluginApi = { defineTool: defineChecked, ok, fail, ToolError, boundsOf };

/** Default export of a plugin file: tools, or a function that creates them. */
export type Plugin =
  | BuiltinTool
  | BuiltinTool[]
  | ((api: PluginApi) => BuiltinTool | BuiltinTool[] | Promise<BuiltinTool | BuiltinTool[]>);

/**
 * The tools of a plugin file. Each version of a file is its own module.
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
