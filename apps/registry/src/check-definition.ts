import { isJsonObject, ToolError, type Json, type JsonObject } from '@toolfleet/contracts';
import {
  FEATURE_NAME_PATTERN,
  GATEWAY_TOOLS,
  isFeature,
  TOOL_DEFINITION,
  TOOL_NAME_PATTERN,
  type Binding,
  type ToolDefinition,
  type ToolSource,
} from '@toolfleet/contracts/tool-definition';
import { checkSchemaCost, checkSchemaSize, compileSchema, validateMessage } from '@toolfleet/bounded-schema';
import { readSelect } from '@toolfleet/bounded-schema/select';
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

const checkShape = validateMessage<ToolDefinition>(TOOL_DEFINITION, 'SPEC_INVALID');

/**
 * Checks one announced definition and returns it in the form in which it is stored: with source and tenant, without undefined
 * fields.
 * @param compile also compile the schemas; off for definitions with schemas that are known to compile
 * @throws ToolError SPEC_INVALID naming the violation; TOOL_NAME_CONFLICT for the name of a tool of the gateway
 */
export function checkDefinition(announced: unknown, source: ToolSource, compile: boolean): ToolDefinition {
  const definition = checkShape(announced);
  const { name } = definition;
  const pattern = isFeature(definition) ? FEATURE_NAME_PATTERN : TOOL_NAME_PATTERN;
  if (!pattern.test(name)) invalid(`name ${JSON.stringify(name.slice(0, 80))} must match ${pattern.source}`);
  const taken = GATEWAY_TOOLS.find((one) => one === name || definition.aliases?.includes(one));
  if (taken)
    throw new ToolError('TOOL_NAME_CONFLICT', {
      message: `${taken} is a tool of the gateway itself; choose another name or set name_prefix`,
    });
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
  // Revisions are hashes of the stored JSON, and JSON in Redis has no undefined members.
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

/** The registration with the sealed secrets that a binding may open. */
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
