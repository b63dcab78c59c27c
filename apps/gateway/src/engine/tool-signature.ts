import { isJsonObject, type Json, type JsonObject } from '@toolfleet/contracts';
import type { RegisteredTool } from '@toolfleet/contracts/tool-definition';
import { inlineDefinitions } from '@toolfleet/schema';

/** A tool as a model that writes Python reads it. */
interface DescribedTool {
  /** For lists: name, description and signature. */
  summary: JsonObject;
  /** Stub of the function, with the arguments explained in its docstring. */
  text: string;
}

const TYPES: Readonly<Record<string, string>> = {
  string: 'str',
  integer: 'int',
  number: 'float',
  boolean: 'bool',
  array: 'list',
  object: 'dict',
  null: 'None',
};
const MAX_ENUM = 8;

/** Describes a tool as a Python function with keyword arguments, from its schema. */
export function describeTool(tool: RegisteredTool): DescribedTool {
  const schema = inlineDefinitions(tool.input_schema);
  const properties = isJsonObject(schema.properties) ? schema.properties : {};
  const required = new Set(Array.isArray(schema.required) ? schema.required : []);
  const names = Object.keys(properties).toSorted((a, b) => Number(required.has(b)) - Number(required.has(a)));
  const parameters = names.map((name) => {
    const type = pythonType(properties[name]);
    return required.has(name) ? `${name}: ${type}` : `${name}: ${type} = ${defaultOf(properties[name])}`;
  });
  const result = tool.output_schema ? pythonType(tool.output_schema) : 'object';
  const signature = `${tool.name}(${parameters.length > 0 ? `*, ${parameters.join(', ')}` : ''}) -> ${result}`;
  const explained = names.flatMap((name) => {
    const described = descriptionOf(properties[name]);
    return described ? [`    ${name}: ${described}`] : [];
  });
  const docs = [tool.description.trim(), ...(explained.length > 0 ? ['', ...explained] : [])];
  const text = `def ${signature}:\n    """${docs.join('\n').replaceAll('"""', "'''")}"""`;
  return { summary: { name: tool.name, description: tool.description, signature }, text };
}

function pythonType(schema: Json | undefined): string {
  if (!isJsonObject(schema)) return 'object';
  if (Array.isArray(schema.enum) && schema.enum.length <= MAX_ENUM)
    return `Literal[${schema.enum.map(literal).join(', ')}]`;
  const variants = schema.anyOf ?? schema.oneOf;
  if (Array.isArray(variants)) return [...new Set(variants.map(pythonType))].join(' | ');
  if (Array.isArray(schema.type)) return schema.type.map((type) => TYPES[String(type)] ?? 'object').join(' | ');
  if (schema.type === 'array' && isJsonObject(schema.items)) return `list[${pythonType(schema.items)}]`;
  return TYPES[String(schema.type)] ?? 'object';
}

const defaultOf = (schema: Json | undefined): string =>
  isJsonObject(schema) && schema.default !== undefined ? literal(schema.default) : '...';

/** JSON as Python writes it. */
function literal(value: Json): string {
  if (value === null) return 'None';
  if (typeof value === 'boolean') return value ? 'True' : 'False';
  return JSON.stringify(value);
}

const descriptionOf = (schema: Json | undefined): string =>
  isJsonObject(schema) && typeof schema.description === 'string' ? schema.description.replaceAll(/\s+/g, ' ') : '';
