import type { JsonObject } from '@toolfleet/contracts';
import {
  TOOL_NAME_PATTERN,
  type ToolDefinition,
  type Toolset,
  type ToolSource,
} from '@toolfleet/contracts/tool-definition';
import { multiAgent } from './agent/multi-agent.tool.js';
import type { BuiltinTool, ToolMetadata } from './builtin-tool.js';
import { calculator } from './calculator/calculator.tool.js';
import { fileExists, fileList, fileRead } from './files/file-read.tool.js';
import { fileSearch } from './files/file-search.tool.js';
import { fileDelete, fileEdit, fileMkdir, fileWrite } from './files/file-write.tool.js';
import { getWeather } from './get-weather.tool.js';
import { jsonProcess } from './json/json-process.tool.js';
import { textProcess } from './text/text-process.tool.js';
import { crawlBatch, fetchPage } from './web/fetch-page.tool.js';
import { webSearch } from './web/web-search.tool.js';

/** Every builtin tool. A new one is a file and a line here. */
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

/** Tools of the given toolsets. */
export function toolsOf(toolsets: readonly Toolset[]): BuiltinTool[] {
  return MANIFEST.filter((tool) => toolsets.includes(toolsetOf(tool)));
}

/** Toolset a tool belongs to. */
export function toolsetOf(tool: BuiltinTool): Toolset {
  return tool.metadata.toolset ?? 'compute';
}

/** Figures an operator may set without touching a tool: calls per minute, and micro-USD per call, by tool name. */
export interface ToolFigures {
  rateLimits: Readonly<Record<string, number>>;
  costsMicroUsd: Readonly<Record<string, number>>;
}

/** Optional fields that are called differently on the wire. */
const WIRE_NAMES = {
  tags: 'tags',
  aliases: 'aliases',
  outputSchema: 'output_schema',
  timeoutSeconds: 'timeout_seconds',
  memoryLimitMb: 'memory_limit_mb',
  costCapMicroUsd: 'cost_cap_micro_usd',
  dangerous: 'dangerous',
  dangerousWhen: 'dangerous_when',
  requiresAuth: 'requires_auth',
  sessionAware: 'session_aware',
  contextKeys: 'context_keys',
  idempotent: 'idempotent',
  retryPolicy: 'retry_policy',
  cacheTtlSeconds: 'cache_ttl_seconds',
  annotations: 'annotations',
  author: 'author',
  inputExamples: 'input_examples',
} as const satisfies Partial<Record<keyof ToolMetadata, keyof ToolDefinition>>;

/** The definition a tool is announced with. */
export function definitionOf(tool: BuiltinTool, source: ToolSource, figures: ToolFigures): ToolDefinition {
  const { metadata } = tool;
  if (!TOOL_NAME_PATTERN.test(metadata.name))
    throw new Error(`Tool name ${JSON.stringify(metadata.name)} is not legal`);
  const optional: JsonObject = {};
  for (const [key, wireName] of Object.entries(WIRE_NAMES)) {
    const value = metadata[key as keyof typeof WIRE_NAMES];
    if (value !== undefined) optional[wireName] = value as JsonObject[string];
  }
  const rateLimit = ownValue(figures.rateLimits, metadata.name) ?? metadata.rateLimit;
  const cost = ownValue(figures.costsMicroUsd, metadata.name) ?? metadata.costMicroUsd;
  return {
    name: metadata.name,
    version: metadata.version ?? '1.0.0',
    description: metadata.description,
    category: metadata.category,
    input_schema: metadata.inputSchema,
    binding: {
      kind: 'builtin',
      toolset: toolsetOf(tool),
      handler: metadata.name,
      ...(tool.build === undefined ? {} : { build: tool.build }),
    },
    source,
    ...(rateLimit === undefined ? {} : { rate_limit: rateLimit }),
    ...(cost === undefined ? {} : { cost_per_use_micro_usd: cost }),
    ...optional,
  };
}

function ownValue(record: Readonly<Record<string, number>>, name: string): number | undefined {
  return Object.hasOwn(record, name) ? record[name] : undefined;
}
