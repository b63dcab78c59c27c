import { isJsonObject, type Json } from '@toolfleet/contracts';
import type { RegisteredTool } from '@toolfleet/contracts/tool-definition';
import {
  docstring,
  indent,
  isIdentifier,
  isMemberName,
  longEnumeration,
  PythonTypes,
  pythonLiteral,
} from './python-types.js';
import { descriptionOf, outputOf, plainText, readFields, TypeNames, type StubField } from './schema-fields.js';

/** Tools of one stub: writing it takes about 0.1 ms per tool. */
export const MAX_STUBS = 200;

/** Maximum length of a line of a signature; a longer one gets a line per parameter. */
const LINE = 110;
/** Names that a stub imports or declares itself. */
const TYPING = ['Any', 'Literal', 'NotRequired', 'Protocol', 'TypedDict', 'Unpack', 'overload'];
const RESERVED = [...TYPING, 'Tools', 'tools'];
/** Members of `tools` that are not tools. */
const MEMBERS = new Set(['search']);

/**
 * A tool as one line of Python for lists, with objects as `dict`: `weather(*, city: str, days: int = 3) -> dict`. A tool whose name
 * is not a valid attribute starts with `tools["the-name"]`.
 */
export function toolSignature(tool: RegisteredTool): string {
  const types = new PythonTypes();
  const { input_schema: schema } = tool;
  const fields = readFields(schema, schema);
  const typed = (field: StubField): string => types.typeOf(schema, field.schema, '');
  const named = fields.filter(isParameter).map((field) => parameterOf(field, typed(field)));
  const others = fields
    .filter((field) => !isParameter(field))
    .map((field) => `${JSON.stringify(field.name)}: ${typed(field)}`);
  const parameters = [
    ...(named.length > 0 ? ['*', ...named] : []),
    ...(others.length > 0 ? [`**{${others.join(', ')}}`] : []),
  ];
  const output = outputOf(tool);
  const result = output ? types.typeOf(output, output, '') : 'Any';
  const name = isAttribute(tool.name) ? tool.name : `tools["${tool.name}"]`;
  return `${name}(${parameters.join(', ')}) -> ${result}`;
}

/**
 * A typed stub of tools (`.pyi`): a class `Tools` with one method per tool and a variable `tools`, as programs use them. Objects
 * with properties are `TypedDict`s. A tool with a name that is not a valid attribute is an item, `tools["name-with-dash"](…)`;
 * arguments with names that are not valid parameters are passed as `**{"from": …}` and declared by `Unpack`.
 * @param tools at most `MAX_STUBS`, as their caller may see them
 */
export function toolStubs(tools: readonly RegisteredTool[]): string {
  const names = new TypeNames([...RESERVED, ...tools.map((tool) => tool.name)]);
  const classes: string[] = [];
  const methods: string[] = [];
  const items: string[] = [];
  for (const tool of tools) {
    const types = new PythonTypes(names);
    if (isAttribute(tool.name)) methods.push(indent(methodOf(tool, types, tool.name)));
    else {
      const call = names.take(tool.name);
      const method = indent(methodOf(tool, types, '__call__'));
      items.push(`    def __getitem__(self, name: Literal["${tool.name}"]) -> ${call}: ...`);
      types.classes.push(`class ${call}(Protocol):  # tools["${tool.name}"](…)\n${method}`);
    }
    classes.push(...types.classes);
  }
  // A single signature must not be an overload.
  const overloads = items.length > 1 ? items.map((item) => `    @overload\n${item}`) : items;
  const members = [...methods, ...overloads];
  const body = [
    ...classes,
    `class Tools:\n${members.length > 0 ? members.join('\n') : '    pass'}`,
    'tools: Tools',
  ].join('\n\n');
  const imports = TYPING.filter((name) => new RegExp(`\\b${name}\\b`).test(body));
  const head = '# Call tools with keyword arguments: tools.name(key=value). A parameter with "= ..." is optional.';
  return `${head}\n${imports.length > 0 ? `from typing import ${imports.join(', ')}\n` : ''}\n${body}\n`;
}

/** How a program names a tool: `tools.name`, or `tools["the-name"]`. */
export const toolExpression = (name: string): string =>
  isAttribute(name) ? `tools.${name}` : `tools[${JSON.stringify(name)}]`;

/** Whether a program can write `tools.name`. */
const isAttribute = (name: string): boolean => isMemberName(name) && !MEMBERS.has(name);

const isParameter = ({ name }: StubField): boolean => isIdentifier(name) && name !== 'self';

function methodOf(tool: RegisteredTool, types: PythonTypes, name: string): string {
  const { input_schema: schema } = tool;
  const output = outputOf(tool);
  const fields = readFields(schema, schema);
  const parameters: string[] = [];
  if (fields.every(isParameter)) {
    if (fields.length > 0) parameters.push('*');
    for (const field of fields)
      parameters.push(parameterOf(field, types.typeOf(schema, field.schema, `${tool.name} ${field.name}`)));
    const more = moreArguments(tool, types);
    if (more !== undefined) parameters.push(`**arguments: ${more}`);
  } else parameters.push(`**arguments: Unpack[${types.declare(schema, fields, `${tool.name} arguments`)}]`);
  const result = output ? types.typeOf(output, output, `${tool.name} result`) : 'Any';
  const line = `def ${name}(${['self', ...parameters].join(', ')}) -> ${result}:`;
  const broken = `def ${name}(\n    ${['self', ...parameters].join(',\n    ')},\n) -> ${result}:`;
  return `${line.length <= LINE ? line : broken}\n${indent(docstring(docOf(tool, fields)))}`;
}

/** The type of undeclared arguments; undefined if the tool takes none. */
function moreArguments({ input_schema: schema }: RegisteredTool, types: PythonTypes): string | undefined {
  const { additionalProperties: more } = schema;
  if (more === true || (more === undefined && schema.properties === undefined)) return 'Any';
  return isJsonObject(more) ? types.typeOf(schema, more, 'value') : undefined;
}

function parameterOf({ name, schema, required }: StubField, type: string): string {
  if (required) return `${name}: ${type}`;
  return `${name}: ${type} = ${defaultOf(schema) ?? '...'}`;
}

const defaultOf = (schema: Json | undefined): string | undefined =>
  isJsonObject(schema) && schema.default !== undefined ? pythonLiteral(schema.default) : undefined;

/** The descriptions of the tool and of its arguments. */
function docOf(tool: RegisteredTool, fields: readonly StubField[]): string {
  const explained = fields.flatMap(({ name, schema }) => {
    const count = longEnumeration(schema);
    const text = [descriptionOf(schema), count === undefined ? '' : `(one of ${count} values)`]
      .filter(Boolean)
      .join(' ');
    return text === '' ? [] : [`    ${plainText(name)}: ${text}`];
  });
  return [tool.description.trim(), ...(explained.length > 0 ? ['', ...explained] : [])].join('\n');
}
