import { readFileSync } from 'node:fs';
import type { Json, JsonObject } from '@toolfleet/contracts';
import { inexactNumberMessage, parseExact, type ParsedText, toInteger } from '@toolfleet/contracts/json-text';
import { suggestion } from '@toolfleet/contracts/text';
import { CliError, EXIT } from './cli-error.js';
import { type CommandLine, optionValue } from './command-line.js';
import { membersOf, resolved, schemaAt } from './tool-schema.js';

/** Options of `call` itself. A tool's argument of such a name must be given as `name=value` or in `--arguments`. */
export const CALL_OPTIONS = [
  'arguments',
  'url',
  'key',
  'json',
  'help',
  'async',
  'dry-run',
  'no-retry',
  'session-id',
  'timeout-ms',
  'idempotency-key',
  'request-id',
  'agent-id',
  'task-id',
  'no-wait',
  'output',
  'cache',
  'toolset',
] as const;

/**
 * Arguments of a tool from a command line; later ones take precedence: `--arguments JSON` (`@file`, `-` for standard input),
 * `--name value` options, and `name=value` words. `--body.author.name` is a member of an object, `--tasks.0.name` of an item of a list.
 * Values get the type in the schema: `--max_results 5` is a number, a repeated option an array, an option of a boolean without a value
 * true, `--no-name` false; `@file` reads JSON for objects and lists, and bytes for base64. `name:=JSON` accepts any JSON. Dashes match
 * underscores.
 * @param claimed options of `call` that are arguments of this tool instead
 * @throws CliError for invalid JSON, missing values, and unknown arguments if the schema does not allow them
 */
export async function toolArguments(
  line: CommandLine,
  words: readonly string[],
  parameters: JsonObject,
  readInput: () => Promise<string>,
  claimed: ReadonlySet<string> = new Set(),
): Promise<JsonObject> {
  const schema = resolved(parameters, parameters);
  const properties = membersOf(schema, parameters);
  const given: JsonObject = { ...(await readJsonObject(optionValue(line, 'arguments'), '--arguments', readInput)) };
  const set = (name: string, prefix: string, toJson: (property: JsonObject | undefined) => Json) => {
    const known = resolveName(properties, name);
    const path = Object.hasOwn(properties, known) || !name.includes('.') ? [known] : resolvePath(properties, name);
    const property = schemaAt(path, schema, parameters);
    if (property === undefined) rejectUnknownArgument(schema, properties, path.join('.'), prefix);
    setAt(given, path, toJson(property), name);
  };
  for (const [option, values] of line.options) {
    if ((CALL_OPTIONS as readonly string[]).includes(option) && !claimed.has(option)) continue;
    const negated = option.startsWith('no-') && !hasName(properties, option);
    if (negated) set(option.slice(3), '--', () => false);
    else set(option, '--', (property) => toValue(property, values, option, parameters));
  }
  for (const word of [...words, ...line.rest]) {
    const [, name, colon, value] = /^([A-Za-z_][\w.-]*)(:?)=(.*)$/s.exec(word) ?? [];
    if (name === undefined || value === undefined) {
      throw new CliError(
        `Invalid argument ${JSON.stringify(word)}; write name=value, --name value or --arguments JSON`,
        EXIT.usage,
      );
    }
    set(name, '', (property) => (colon ? parseJson(value, name) : toValue(property, [value], name, parameters)));
  }
  return given;
}

/** Sets a member of objects and lists; missing ones are made. @throws CliError */
function setAt(given: JsonObject, path: readonly string[], value: Json, name: string): void {
  let at = given as Record<string, Json>;
  for (const [index, part] of path.entries()) {
    if (Array.isArray(at) && Number(part) > at.length)
      throw new CliError(`${name}: items of a list are numbered from 0, without gaps`, EXIT.usage);
    const next = path[index + 1];
    if (next === undefined) at[part] = value;
    else {
      const isList = /^\d+$/.test(next);
      const before = at[part] ?? (isList ? [] : {});
      if (typeof before !== 'object' || before === null || Array.isArray(before) !== isList)
        throw new CliError(`${name} is given in addition to a value of ${part}`, EXIT.usage);
      at = at[part] = (Array.isArray(before) ? [...before] : { ...before }) as Record<string, Json>;
    }
  }
}

/** @throws CliError with a similar name, when the schema has no such argument and does not allow others: they would be dropped */
function rejectUnknownArgument(
  schema: JsonObject,
  properties: Record<string, JsonObject>,
  name: string,
  prefix: string,
): void {
  if ((schema['additionalProperties'] ?? false) !== false) return;
  const known = Object.keys(properties);
  const owner = known.find((one) => Object.hasOwn((properties[one]?.['properties'] ?? {}) as object, name));
  const [first = ''] = name.split('.');
  const members = Object.keys((properties[first]?.['properties'] ?? {}) as object).map((one) => `${first}.${one}`);
  const meant =
    owner === undefined
      ? suggestion(name, [...known, ...members], prefix)
      : `; it is a member: ${prefix}${owner}.${name}`;
  throw new CliError(
    `The tool has no argument ${prefix}${name}${meant} (its arguments: ${known.join(', ') || 'none'})`,
    EXIT.usage,
  );
}

/**
 * The object in an option: JSON, `@file`, or `-` for standard input; empty without the option.
 * @param option as it is typed, for messages
 * @throws CliError for invalid JSON, anything but an object, and a file that cannot be read
 */
export async function readJsonObject(
  source: string | undefined,
  option: string,
  readInput: () => Promise<string>,
): Promise<JsonObject> {
  if (source === undefined) return {};
  const isFile = source.startsWith('@');
  const text =
    source === '-' ? await readInput() : isFile ? fileBytes(source.slice(1), option.slice(2)).toString('utf8') : source;
  const value = parseJson(text, option.slice(2));
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw new CliError(`${option} must be a JSON object`, EXIT.usage);
  return value;
}

function fileBytes(path: string, name: string): Buffer {
  try {
    return readFileSync(path);
  } catch (error) {
    throw new CliError(`--${name} @${path} cannot be read: ${(error as Error).message}`, EXIT.usage);
  }
}

function parseJson(text: string, name: string): Json {
  let read: ParsedText;
  try {
    read = parseExact(text);
  } catch (error) {
    throw new CliError(`${name} is not valid JSON: ${(error as Error).message}`, EXIT.usage);
  }
  const { value, inexact } = read;
  if (inexact !== undefined) throw new CliError(`${name}: ${inexactNumberMessage(inexact)}`, EXIT.usage);
  return value;
}

/** The names of a dotted argument, the first as the schema spells it. */
function resolvePath(properties: Record<string, JsonObject>, name: string): string[] {
  const [first = '', ...rest] = name.split('.');
  return hasName(properties, first) ? [resolveName(properties, first), ...rest] : [name];
}

function hasName(properties: Record<string, JsonObject>, name: string): boolean {
  return Object.hasOwn(properties, name) || Object.hasOwn(properties, name.replaceAll('-', '_'));
}

function resolveName(properties: Record<string, JsonObject>, name: string): string {
  if (Object.hasOwn(properties, name)) return name;
  const underscored = name.replaceAll('-', '_');
  return Object.hasOwn(properties, underscored) ? underscored : name;
}

function toValue(
  property: JsonObject | undefined,
  values: readonly (string | true)[],
  name: string,
  root: JsonObject,
): Json {
  const types = schemaTypes(property);
  const only = values[0];
  if (typeof only === 'string' && values.length === 1 && only.startsWith('@')) {
    if (property?.['contentEncoding'] === 'base64') return fileBytes(only.slice(1), name).toString('base64');
    if (!types.includes('string') && (types.includes('array') || types.includes('object')))
      return parseJson(fileBytes(only.slice(1), name).toString('utf8'), name);
  }
  if (types.includes('array')) {
    const items = resolved(property?.['items'], root);
    if (values.length === 1 && typeof only === 'string' && only.trimStart().startsWith('['))
      return parseJson(only, name);
    return values.map((value) => scalar(schemaTypes(items), value, name));
  }
  if (values.length > 1)
    throw new CliError(`${name} is given ${values.length} times but accepts one value`, EXIT.usage);
  return scalar(types, only ?? true, name);
}

/** Converts text to a type of the schema. Text that does not convert is kept, and the gateway reports it. */
function scalar(types: readonly string[], value: string | true, name: string): Json {
  if (value === true) {
    if (types.length === 0 || types.includes('boolean')) return true;
    throw new CliError(`--${name} requires a value: --${name} <${types.join(' or ')}>`, EXIT.usage);
  }
  if (types.includes('string')) return value;
  if (types.includes('integer') || types.includes('number'))
    return toInteger(value) ?? (value.trim() !== '' && Number.isFinite(Number(value)) ? Number(value) : value);
  if (types.includes('boolean')) return value === 'true' ? true : value === 'false' ? false : value;
  if (types.includes('object') || types.length === 0) return /^\s*[[{]/.test(value) ? parseJson(value, name) : value;
  return value;
}

function schemaTypes(property: JsonObject | undefined): string[] {
  const type = property?.['type'];
  return typeof type === 'string' ? [type] : Array.isArray(type) ? type.map(String) : [];
}
