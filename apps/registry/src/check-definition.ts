import { isJsonObject, ToolError, type Json, type JsonObject } from '@toolfleet/contracts';
import {
  DECLARED_KEYS,
  FEATURE_NAME_PATTERN,
  isFeature,
  MCP_FEATURES,
  TOOL_NAME_PATTERN,
  TOOLSETS,
  type Binding,
  type ToolDefinition,
  type ToolSource,
} from '@toolfleet/contracts/tool-definition';
import { TOOL_SETTINGS } from '@toolfleet/contracts/tool-settings';
import { checkSchemaCost, checkSchemaSize, compileSchema, validateMessage } from '@toolfleet/schema';
import { readSelect } from '@toolfleet/schema/select';
import { PYTHON_SOURCE, sourceTenant } from './tool-key.js';

/** The expression recommended by semver.org, except that the patch number is optional: published tools use `"version": "1.0"`. */
const SEMVER =
  /^(0|[1-9]\d*)\.(0|[1-9]\d*)(?:\.(0|[1-9]\d*))?(?:-((?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)(?:\.(?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*))*))?(?:\+([0-9a-zA-Z-]+(?:\.[0-9a-zA-Z-]+)*))?$/;

/** The bindings a kind of source may announce. An MCP server, for example, cannot announce a builtin tool. */
const BINDINGS: Record<ToolSource['kind'], readonly Binding['kind'][]> = {
  builtin: ['builtin', 'python', 'program'],
  plugin: ['builtin'],
  mcp: ['mcp'],
  openapi: ['openapi'],
};

const text = (maxLength: number): JsonObject => ({ type: 'string', minLength: 1, maxLength });
const whole = (minimum: number, maximum: number): JsonObject => ({ type: 'integer', minimum, maximum });
const list = (items: JsonObject, maxItems: number): JsonObject => ({ type: 'array', items, maxItems });
const flag: JsonObject = { type: 'boolean' };
const anyObject: JsonObject = { type: 'object' };
/** 1,000 USD. A higher price of one call is a wrong unit. */
const MAX_MICRO_USD = 1_000_000_000;

const bindings: JsonObject[] = [
  {
    properties: { kind: { const: 'builtin' }, toolset: { enum: [...TOOLSETS] }, handler: text(128), build: text(64) },
    required: ['kind', 'toolset', 'handler'],
  },
  { properties: { kind: { enum: ['python', 'program'] } }, required: ['kind'] },
  {
    properties: {
      kind: { const: 'mcp' },
      server: text(200),
      transport: { enum: ['streamable-http', 'function-args', 'stdio'] },
      url: { type: 'string', maxLength: 4096 },
      remoteName: text(512),
      method: { enum: [...MCP_FEATURES] },
      authority: { type: 'string', pattern: '^mcp-[0-9a-f]{16}$' },
      digest: { type: 'string', pattern: '^[0-9a-f]{64}$' },
      options: anyObject,
    },
    required: ['kind', 'server', 'transport', 'url', 'remoteName'],
  },
  {
    properties: {
      kind: { const: 'openapi' },
      collection: text(200),
      baseUrl: { type: 'string', maxLength: 4096 },
      operationId: text(512),
      method: text(16),
      path: text(4096),
      plan: anyObject,
      options: anyObject,
    },
    required: ['kind', 'collection', 'baseUrl', 'operationId', 'method', 'path', 'plan'],
  },
];

const settingSchemas = Object.fromEntries(Object.entries(TOOL_SETTINGS).map(([name, { schema }]) => [name, schema]));

/**
 * Shape and ranges of an announced definition (`ToolDefinition` of libs/contracts). Rules that involve several fields are code in
 * `checkDefinition`. Unknown fields pass, so that an older registry accepts definitions of a newer executor.
 */
const DEFINITION_SCHEMA: JsonObject = {
  type: 'object',
  properties: {
    name: { type: 'string' },
    aliases: list({ type: 'string', pattern: '^[A-Za-z0-9_.@-]{1,200}$' }, 20),
    version: text(128),
    description: text(65_536),
    category: text(64),
    tags: list(text(64), 50),
    input_schema: anyObject,
    output_schema: anyObject,
    binding: { type: 'object', oneOf: bindings },
    ...settingSchemas,
    cost_per_use_micro_usd: whole(0, MAX_MICRO_USD),
    cost_cap_micro_usd: whole(0, MAX_MICRO_USD),
    dangerous_when: list(
      {
        type: 'object',
        properties: { argument: text(256), values: { type: 'array', minItems: 1, maxItems: 100 } },
        required: ['argument', 'values'],
      },
      20,
    ),
    sandboxed: flag,
    context_keys: list({ enum: [...DECLARED_KEYS] }, DECLARED_KEYS.length),
    required_roles: list(text(64), 50),
    forwards_idempotency_key: flag,
    task_support: { enum: ['forbidden', 'optional', 'required'] },
    annotations: anyObject,
    listing: anyObject,
    author: text(256),
    input_examples: list(anyObject, 20),
    tenant: { type: 'string', pattern: '^[A-Za-z0-9_.:-]{1,128}$' },
  },
  required: ['name', 'version', 'description', 'category', 'input_schema', 'binding'],
};

const checkShape = validateMessage<ToolDefinition>(DEFINITION_SCHEMA, 'SPEC_INVALID');

/**
 * Checks one announced definition and returns it in the form in which it is stored: with source and tenant, without undefined
 * fields.
 * @param compile also compile the schemas; off for definitions whose schemas are known to compile
 * @throws ToolError SPEC_INVALID naming the violation
 */
export function checkDefinition(announced: unknown, source: ToolSource, compile: boolean): ToolDefinition {
  const definition = checkShape(announced);
  const { name } = definition;
  const pattern = isFeature(definition) ? FEATURE_NAME_PATTERN : TOOL_NAME_PATTERN;
  if (!pattern.test(name)) invalid(`name ${JSON.stringify(name.slice(0, 80))} must match ${pattern.source}`);
  if (!SEMVER.test(definition.version))
    invalid(`version ${JSON.stringify(definition.version)} is not a semantic version`);
  checkBinding(definition.binding, source);
  if (definition.input_schema['type'] !== 'object') invalid('input_schema.type must be "object"');
  checkSchema('input_schema', definition.input_schema, compile);
  if (definition.output_schema) checkSchema('output_schema', definition.output_schema, compile);
  const { cost_per_use_micro_usd: cost = 0, cost_cap_micro_usd: cap } = definition;
  if (cap !== undefined && cap < cost) invalid('cost_cap_micro_usd is below cost_per_use_micro_usd');
  if (definition.select !== undefined) checkSelect(name, definition.select);
  if (definition.dangerous_when) {
    const properties = definition.input_schema['properties'];
    for (const { argument } of definition.dangerous_when) {
      if (!isJsonObject(properties) || !Object.hasOwn(properties, argument)) {
        invalid(`dangerous_when names the argument ${JSON.stringify(argument)}, which input_schema does not have`);
      }
    }
  }
  const tenant = sourceTenant(source);
  if (definition.tenant !== undefined && definition.tenant !== tenant) {
    invalid(`a definition of source ${source.name} cannot belong to tenant ${definition.tenant}`);
  }
  const registration = sealingRegistration(definition.binding);
  if (registration !== undefined && registration !== source.name) {
    invalid(`a definition of source ${source.name} cannot open secrets of ${registration}`);
  }
  const stored: ToolDefinition = { ...definition, source: { kind: source.kind, name: source.name } };
  if (tenant !== undefined) stored.tenant = tenant;
  // Revisions are hashes of what is stored, and JSON in Redis has no undefined members.
  return JSON.parse(JSON.stringify(stored)) as ToolDefinition;
}

function checkBinding(binding: Binding, { kind, name }: ToolSource): void {
  if (!BINDINGS[kind].includes(binding.kind)) {
    invalid(`a source of kind ${kind} cannot announce a binding of kind ${binding.kind}`);
  }
  // A builtin call is sent to the toolset in its binding, so a toolset may only announce its own tools.
  if (binding.kind === 'builtin' && name !== `${kind}.${binding.toolset}`) {
    invalid(`the source ${kind}/${name} cannot announce a tool of the toolset ${binding.toolset}`);
  }
  if ((binding.kind === 'python' || binding.kind === 'program') && name !== PYTHON_SOURCE.name) {
    invalid(`only the source ${PYTHON_SOURCE.kind}/${PYTHON_SOURCE.name} announces a tool of the Python sandbox`);
  }
}

/** The registration whose sealed secrets a binding may open. */
function sealingRegistration(binding: Binding): string | undefined {
  const named = binding.kind === 'mcp' || binding.kind === 'openapi' ? binding.options?.['registration'] : undefined;
  return named === undefined ? undefined : String(named);
}

function checkSchema(field: string, schema: JsonObject, compile: boolean): void {
  checkSchemaSize(schema);
  checkReferences(field, schema);
  checkSchemaCost(schema);
  if (compile) compileSchema(schema);
}

/** A definition is stored on its own, so references may point only into the `$defs` of their schema. */
function checkReferences(field: string, schema: JsonObject): void {
  const open: Json[] = [schema];
  while (open.length > 0) {
    const value = open.pop();
    if (Array.isArray(value)) open.push(...value);
    else if (isJsonObject(value)) {
      for (const [key, member] of Object.entries(value)) {
        const isReference = (key === '$ref' || key === '$dynamicRef') && typeof member === 'string';
        if (isReference && member !== '#' && !member.startsWith('#/$defs/')) {
          invalid(`${field} refers to ${JSON.stringify(member.slice(0, 200))}; only #/$defs/ is allowed`);
        }
        if (typeof member === 'object' && member !== null) open.push(member);
      }
    }
  }
}

function invalid(message: string): never {
  throw new ToolError('SPEC_INVALID', { message: `Definition refused: ${message}` });
}

function checkSelect(name: string, expression: string): void {
  try {
    readSelect(expression);
  } catch (error) {
    invalid(`${name} has a wrong value for select: ${(error as Error).message}`);
  }
}
