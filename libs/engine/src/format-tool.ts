import { ToolError, toUsd, type Json, type JsonObject } from '@toolfleet/contracts';
import {
  DEFAULT_MEMORY_LIMIT_MB,
  DEFAULT_RATE_LIMIT,
  SHOWN_TIMEOUT_SECONDS,
  type RegisteredTool,
} from '@toolfleet/contracts/tool-definition';

/** How a tool is shown to its readers. */
export const TOOL_FORMATS = ['native', 'openai', 'anthropic', 'mcp'] as const;
export type ToolFormat = (typeof TOOL_FORMATS)[number];

/**
 * A definition in the format a model provider or client expects. Context keys are not part of the schema, so no format
 * shows them.
 */
export function formatTool(tool: RegisteredTool, format: ToolFormat): JsonObject {
  switch (format) {
    case 'native':
      return toNative(tool);
    case 'openai':
      return {
        type: 'function',
        function: { name: tool.name, description: tool.description, parameters: parametersOf(tool) },
      };
    case 'anthropic':
      return { name: tool.name, description: tool.description, input_schema: parametersOf(tool) };
    case 'mcp':
      return toMcp(tool);
  }
}

/** The value of `?format=`; nothing is `native`. @throws ToolError REQUEST_INVALID */
export function toolFormatOf(value: string | undefined): ToolFormat {
  if (value === undefined || value === '') return 'native';
  if ((TOOL_FORMATS as readonly string[]).includes(value)) return value as ToolFormat;
  throw new ToolError('REQUEST_INVALID', { message: `format must be one of ${TOOL_FORMATS.join(', ')}` });
}

/** The tool object of the public API. */
function toNative(tool: RegisteredTool): JsonObject {
  return {
    name: tool.name,
    description: tool.description,
    category: tool.category,
    version: tool.version,
    parameters: parametersOf(tool),
    timeout_seconds: tool.timeout_seconds ?? SHOWN_TIMEOUT_SECONDS,
    cost_per_use: toUsd(tool.cost_per_use_micro_usd ?? 0),
    ...(tool.available ? {} : { available: false }),
    ...(tool.tags?.length ? { tags: tool.tags } : {}),
  };
}

function toMcp(tool: RegisteredTool): JsonObject {
  const { title } = tool.annotations ?? {};
  return {
    name: tool.name,
    ...(typeof title === 'string' ? { title } : {}),
    description: tool.description,
    inputSchema: parametersOf(tool),
    ...(tool.output_schema ? { outputSchema: tool.output_schema } : {}),
    ...(tool.annotations ? { annotations: tool.annotations } : {}),
  };
}

/** Facts about a tool for operators and callers. */
export function toolMetadata(tool: RegisteredTool): JsonObject {
  const optional = (value: Json | undefined) => value ?? null;
  return {
    name: tool.name,
    version: tool.version,
    description: tool.description,
    category: tool.category,
    author: optional(tool.author),
    requires_auth: tool.requires_auth ?? false,
    rate_limit: tool.rate_limit ?? DEFAULT_RATE_LIMIT,
    timeout_seconds: tool.timeout_seconds ?? SHOWN_TIMEOUT_SECONDS,
    memory_limit_mb: tool.memory_limit_mb ?? DEFAULT_MEMORY_LIMIT_MB,
    sandboxed: tool.sandboxed ?? false,
    dangerous: tool.dangerous ?? false,
    session_aware: tool.session_aware ?? false,
    idempotent: tool.idempotent ?? false,
    cost_per_use: toUsd(tool.cost_per_use_micro_usd ?? 0),
    tags: tool.tags ?? [],
    input_examples: tool.input_examples ?? [],
    source: { kind: tool.source.kind, name: tool.source.name },
    revision: tool.revision,
    available: tool.available,
  };
}

/** The input schema with `type` and `properties` always there: some providers refuse a schema without. */
function parametersOf(tool: RegisteredTool): JsonObject {
  const schema = tool.input_schema;
  return schema.type === 'object' && schema.properties
    ? schema
    : { ...schema, type: 'object', properties: schema.properties ?? {} };
}
