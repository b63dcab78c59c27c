import { isJsonObject, ToolError, type Json, type JsonObject } from '@toolfleet/contracts';
import {
  TOOL_NAME_PATTERN,
  type Binding,
  type ToolDefinition,
  type ToolSource,
} from '@toolfleet/contracts/tool-definition';
import {
  canonicalJson,
  checkFanOut,
  checkSchemaSize,
  compileSchema,
  sha256Hex,
  validateMessage,
} from '@toolfleet/schema';
import { DEFINITION_SCHEMA } from './definition-schema.js';
import { PYTHON_SOURCE } from './sources/python-tool.js';

/** semver.org, the expression it recommends; the patch number may be left out, as the published `"version": "1.0"` does. */
const SEMVER =
  /^(0|[1-9]\d*)\.(0|[1-9]\d*)(?:\.(0|[1-9]\d*))?(?:-((?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)(?:\.(?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*))*))?(?:\+([0-9a-zA-Z-]+(?:\.[0-9a-zA-Z-]+)*))?$/;

/** Which bindings a source may announce: a server cannot hand out a builtin, nor an executor the sandbox. */
const BINDINGS: Record<ToolSource['kind'], readonly Binding['kind'][]> = {
  builtin: ['builtin', 'python'],
  plugin: ['builtin'],
  mcp: ['mcp'],
  openapi: ['openapi'],
};

const checkShape = validateMessage<ToolDefinition>(DEFINITION_SCHEMA, 'SPEC_INVALID');

/** How thoroughly a definition is looked at. */
export interface DefinitionChecks {
  /** Compile the schemas. Off for large documents converted by our own code, which is tested to compile (openapi.md 4). */
  compile: boolean;
}

/**
 * Checks one announced definition and gives it back as it is stored: source and tenant set, absent fields left out.
 * @throws ToolError SPEC_INVALID naming what is wrong
 */
export function checkDefinition(announced: unknown, source: ToolSource, checks: DefinitionChecks): ToolDefinition {
  const definition = checkShape(announced);
  const { name } = definition;
  if (!TOOL_NAME_PATTERN.test(name))
    invalid(`name ${JSON.stringify(name.slice(0, 80))} must match [A-Za-z0-9_-]{1,64}`);
  if (!SEMVER.test(definition.version))
    invalid(`version ${JSON.stringify(definition.version)} is not a semantic version`);
  checkBinding(definition.binding, source);
  checkSchema('input_schema', definition.input_schema, checks, true);
  if (definition.output_schema) checkSchema('output_schema', definition.output_schema, checks, false);
  const { cost_per_use_micro_usd: cost = 0, cost_cap_micro_usd: cap } = definition;
  if (cap !== undefined && cap < cost) invalid('cost_cap_micro_usd is below cost_per_use_micro_usd');
  if (definition.dangerous_when) {
    const properties = definition.input_schema['properties'];
    for (const { argument } of definition.dangerous_when) {
      if (!isJsonObject(properties) || !Object.hasOwn(properties, argument)) {
        invalid(`dangerous_when names the argument ${JSON.stringify(argument)}, which input_schema does not have`);
      }
    }
  }
  const tenant = tenantOf(source);
  if (definition.tenant !== undefined && definition.tenant !== tenant) {
    invalid(`a definition of source ${source.name} cannot belong to tenant ${definition.tenant}`);
  }
  const registration = registrationOf(definition.binding);
  if (registration !== undefined && registration !== source.name) {
    invalid(`a definition of source ${source.name} cannot open secrets of ${registration}`);
  }
  const stored: ToolDefinition = { ...definition, source: { kind: source.kind, name: source.name } };
  if (tenant !== undefined) stored.tenant = tenant;
  // What Redis gives back has no undefined members; neither has what is hashed.
  return JSON.parse(JSON.stringify(stored)) as ToolDefinition;
}

function checkBinding(binding: Binding, { kind, name }: ToolSource): void {
  if (!BINDINGS[kind].includes(binding.kind)) {
    invalid(`a source of kind ${kind} cannot announce a binding of kind ${binding.kind}`);
  }
  // Calls go where the binding says: a toolset that announced a tool of another one could redirect them.
  if (binding.kind === 'builtin' && name !== `${kind}.${binding.toolset}`) {
    invalid(`the source ${kind}/${name} cannot announce a tool of the toolset ${binding.toolset}`);
  }
  if (binding.kind === 'python' && name !== PYTHON_SOURCE.name) {
    invalid(`only the source ${PYTHON_SOURCE.kind}/${PYTHON_SOURCE.name} announces a tool of the Python sandbox`);
  }
}

/** The registration whose sealed secrets a binding may open. */
function registrationOf(binding: Binding): string | undefined {
  const named = binding.kind === 'mcp' || binding.kind === 'openapi' ? binding.options?.['registration'] : undefined;
  return named === undefined ? undefined : String(named);
}

/** Tenant of a source registered by a tenant: `crm@acme` belongs to `acme`. */
export function tenantOf(source: ToolSource): string | undefined {
  const at = source.name.indexOf('@');
  return at < 0 ? undefined : source.name.slice(at + 1);
}

/** Name of the source of a registration; tenants are apart, so that two of them may use one name. */
export function sourceName(name: string, tenant: string | undefined): string {
  return tenant === undefined ? name : `${name}@${tenant}`;
}

/** Content hash of a definition: equal definitions, equal revision, over restarts and replicas. */
export function revisionOf(definition: ToolDefinition): string {
  return sha256Hex(canonicalJson(definition as unknown as Json)).slice(0, 16);
}

function checkSchema(field: string, schema: JsonObject, { compile }: DefinitionChecks, isArguments: boolean): void {
  if (isArguments && schema['type'] !== 'object') invalid(`${field}.type must be "object"`);
  checkSchemaSize(schema);
  checkReferences(field, schema);
  checkFanOut(schema);
  if (compile) compileSchema(schema);
}

/** Definitions travel alone: a reference may point into the schema's own `$defs` and nowhere else. */
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
