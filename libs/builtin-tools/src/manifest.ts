import type { Toolset } from '@toolfleet/contracts';
import type { BuiltinTool } from './builtin-tool.js';
import { calculator } from './calculator/calculator.tool.js';
import { getWeather } from './get-weather.tool.js';
import { jsonProcess } from './json-process.tool.js';
import { textProcess } from './text-process.tool.js';

/** Every builtin tool. A new one is a file and a line here. */
export const MANIFEST: readonly BuiltinTool[] = [calculator, jsonProcess, textProcess, getWeather];

/** Tools of the given toolsets. */
export function toolsOf(toolsets: readonly Toolset[]): BuiltinTool[] {
  return MANIFEST.filter((tool) => toolsets.includes(toolsetOf(tool)));
}

/** Toolset a tool belongs to. */
export function toolsetOf(tool: BuiltinTool): Toolset {
  return tool.metadata.toolset ?? 'compute';
}
