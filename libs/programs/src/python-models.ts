import { isJsonObject } from '@toolfleet/contracts';
import type { RegisteredTool } from '@toolfleet/contracts/tool-definition';
import {
  docstring,
  indent,
  isMemberName,
  PythonTypes,
  pythonLiteral,
  type ClassWriter,
  type Member,
} from './python-types.js';
import { outputOf, readFields, TypeNames } from './schema-fields.js';

/** Names that the module imports, and constants: a tool `none` cannot be the class `None`. */
const IMPORTED = ['False', 'None', 'True', 'ABSENT', 'Any', 'Field', 'Literal', 'ToolCall', 'ToolModel'];
/** Names of `pydantic.BaseModel` that a field would hide. */
const BASE_MEMBERS = new Set(
  'construct copy dict from_orm json parse_file parse_obj parse_raw schema schema_json update_forward_refs validate'.split(
    ' ',
  ),
);
const HEAD = `# Models of tools, for the Python package toolfleet: await fleet.call(Calculator(expression="6 * 7"))
from __future__ import annotations
`;

/**
 * A Python module with a model for the arguments of each tool, a `ToolCall` of its output, and a `ToolModel` for each object in them. The
 * module runs when it is imported: from schemas it takes names, values and texts as literals, and nothing else.
 * @param tools as their caller may see them
 */
export function toolModels(tools: readonly RegisteredTool[]): string {
  const names = new TypeNames(IMPORTED);
  const classes = tools.flatMap((tool) => {
    const { input_schema: input } = tool;
    const name = names.take(tool.name);
    const output = outputOf(tool);
    const results = new PythonTypes(names, (own, members) => model(own, members, resultField));
    const result = output ? results.typeOf(output, output, `${tool.name} output`) : 'Any';
    const types = new PythonTypes(names, (own, members) => model(own, members, argumentField));
    const fields = fieldLines(types.membersOf(input, readFields(input, input), tool.name), argumentField);
    const head = `class ${name}(ToolCall[${result}], tool=${JSON.stringify(tool.name)}):`;
    const text = indent([docstring(tool.description.trim()), ...(fields.length > 0 ? ['', ...fields] : [])].join('\n'));
    return [...results.classes, ...types.classes, `${head}\n${text}`];
  });
  // Python strings of pydantic cannot hold halves of surrogate pairs (escaped by `JSON.stringify`).
  const body = classes.join('\n\n\n').replaceAll(/(?<!\\)((?:\\\\)*)\\ud[89a-f][\da-f]{2}/g, '$1\\ufffd');
  const used = (module: string, all: readonly string[]): string => {
    const here = all.filter((name) => new RegExp(`\\b${name}\\b`).test(body));
    return here.length > 0 ? `from ${module} import ${here.join(', ')}\n` : '';
  };
  const imports = [
    used('typing', ['Any', 'Literal']),
    used('pydantic', ['Field']),
    used('toolfleet', ['ABSENT', 'ToolCall', 'ToolModel']),
  ];
  return `${HEAD}\n${imports.filter(Boolean).join('\n')}${body === '' ? '' : `\n\n${body}\n`}`;
}

/** How an optional field is written: its type and default. */
type FieldWriter = (member: Member) => { type: string; value?: string };

/** An argument that was not passed is not sent, so that the fleet applies the default; it cannot be None unless the schema allows null. */
const argumentField: FieldWriter = ({ type, required, schema }) => {
  if (required) return { type };
  const value = isJsonObject(schema) ? schema.default : undefined;
  // Lists and objects would be shared by all models; null is often the default of a type without null.
  const isSimple = value !== undefined && typeof value !== 'object';
  return { type, value: (isSimple ? pythonLiteral(value) : undefined) ?? 'ABSENT' };
};

/** A member that a result lacks is None. */
const resultField: FieldWriter = ({ type, required }) => {
  if (required) return { type };
  return { type: type === 'Any' || /(^| \| )None$/.test(type) ? type : `${type} | None`, value: 'None' };
};

function model(name: string, members: Parameters<ClassWriter>[1], write: FieldWriter): string {
  return `class ${name}(ToolModel):\n${indent(fieldLines(members, write).join('\n'))}`;
}

/** One line for each field; names that Python or pydantic reserves get an underscore, and the name in JSON as an alias. */
function fieldLines(members: readonly Member[], write: FieldWriter): string[] {
  const taken = new Set(members.map(({ name }) => name).filter(isFieldName));
  return members.map((member) => {
    const { type, value } = write(member);
    if (isFieldName(member.name))
      return `${member.name}: ${type}${value === undefined ? '' : ` = ${value}`}${member.comment}`;
    const own = freeName(member.name, taken);
    const alias = JSON.stringify(member.name.toWellFormed());
    const names = `validation_alias=${alias}, serialization_alias=${alias}`;
    return `${own}: ${type} = Field(${value === undefined ? '' : `default=${value}, `}${names})${member.comment}`;
  });
}

/** Whether a field can have the name: not private, no member of the base class, and no type of the module. */
const isFieldName = (name: string): boolean =>
  isMemberName(name) &&
  !/^_|^model_|^[A-Z][A-Za-z0-9]*$/.test(name) &&
  name !== 'self' &&
  !BASE_MEMBERS.has(name) &&
  !IMPORTED.includes(name);

function freeName(name: string, taken: Set<string>): string {
  const plain = name.replaceAll(/[^A-Za-z0-9]+/g, '_').replace(/^_+/, '');
  const base = `${/^\d|^model_|^$/.test(plain) ? `field_${plain}` : plain}_`.replace(/_+$/, '_');
  let free = base;
  for (let n = 2; taken.has(free); n += 1) free = `${base}${n}`;
  taken.add(free);
  return free;
}
