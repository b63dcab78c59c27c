import type { JsonObject } from '@toolfleet/contracts';
import {
  TOOL_NAME_PATTERN,
  type ToolDefinition,
  type Toolset,
  type ToolSource,
} from '@toolfleet/contracts/tool-definition';
import { toSnakeCase } from '@toolfleet/contracts/wire';
import { multiAgent } from './agent/multi-agent.tool.js';
import { AUTHORED_FIELDS, type BuiltinTool } from './builtin-tool.js';
import { calculator } from './calculator/calculator.tool.js';
import { fileExists, fileList, fileRead } from './files/file-read.tool.js';
import { fileSearch } from './files/file-search.tool.js';
import { fileDelete, fileEdit, fileMkdir, fileWrite } from './files/file-write.tool.js';
import { getWeather } from './get-weather.tool.js';
import { jsonProcess } from './json/json-process.tool.js';
import { textProcess } from './text/text-process.tool.js';
import { crawlBatch, fetchPage } from './web/fetch-page.tool.js';
import { webSearch } from './web/web-search.tool.js';

/** All builtin tools. Add a new tool here. */
export const MANIFEST: readonly BuiltinTool[] = [
  calculator,
  jsonProcess,
  textProcess,
  getWeather,
  fileRead,
  fileWrite,
  fileEdit,
  fileDelete,
  fileList,
  fileExists,
  fileMkdir,
  fileSearch,
  fetchPage,
  crawlBatch,
  webSearch,
  multiAgent,
];

/** The builtin tools of the given toolsets. */
export function selectTools(toolsets: readonly Toolset[]): BuiltinTool[] {
  return MANIFEST.filter((tool) => toolsets.includes(getToolset(tool)));
}

/** The toolset of a tool; default `compute`. */
export function getToolset(tool: BuiltinTool): Toolset {
  return tool.metadata.toolset ?? 'compute';
}

/** Overrides of an operator by tool name: calls per minute, and micro-USD per call. */
export interface ToolOverrides {
  rateLimits: Readonly<Record<string, number>>;
  costsMicroUsd: Readonly<Record<string, number>>;
}

/** The definition with which an executor announces a tool. @throws Error for an invalid tool name */
export function toToolDefinition(tool: BuiltinTool, source: ToolSource, overrides: ToolOverrides): ToolDefinition {
  const { metadata } = tool;
  if (!TOOL_NAME_PATTERN.test(metadata.name))
    throw new Error(`Invalid tool name ${JSON.stringify(metadata.name)}: must match ${TOOL_NAME_PATTERN.source}`);
  const optional: JsonObject = {};
  const declared = toSnakeCase(metadata) as Partial<ToolDefinition>;
  for (const name of AUTHORED_FIELDS)
    if (declared[name] !== undefined) optional[name] = declared[name] as JsonObject[string];
  const rateLimit = ownValue(overrides.rateLimits, metadata.name) ?? metadata.rateLimit;
  const cost = ownValue(overrides.costsMicroUsd, metadata.name) ?? metadata.costMicroUsd;
  if (rateLimit !== undefined) optional.rate_limit = rateLimit;
  if (cost !== undefined) optional.cost_per_use_micro_usd = cost;
  return {
    name: metadata.name,
    version: metadata.version ?? '1.0.0',
    description: metadata.description,
    category: metadata.category,
    input_schema: metadata.inputSchema,
    binding: {
      kind: 'builtin',
      toolset: getToolset(tool),
      handler: metadata.name,
      build: tool.build,
    },
    source,
    ...optional,
  };
}

function ownValue(record: Readonly<Record<string, number>>, name: string): number | undefined {
  return Object.hasOwn(record, name) ? record[name] : undefined;
}
