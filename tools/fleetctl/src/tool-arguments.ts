import { readFileSync } from 'node:fs';
import type { Json, JsonObject } from '@toolfleet/contracts';
import { inexactNumber, inexactNumberMessage } from '@toolfleet/contracts/json-text';
import { suggestion } from '@toolfleet/contracts/text';
import { CliError, EXIT } from './cli-error.js';
import { type CommandLine, optionValue } from './command-line.js';

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
 * `--name value` options, and `name=value` words. Values get the type in the schema: `--max_results 5` is a number, a repeated
 * option an array, an option of a boolean without a value true, `--no-name` false. `name:=JSON` accepts any JSON. Dashes match underscores.
 * @param claimed options of `call` that are arguments of this tool instead
 * @throws CliError for invalid JSON, missing values, and unknown arguments if the schema does not allow them
 */
export async function toolArguments(
  line: CommandLine,
  words: readonly string[],
  schema: JsonObject,
  readInput: () => Promise<string>,
  claimed: ReadonlySet<string> = new Set(),
): Promise<JsonObject> {
  const properties = (schema['properties'] ?? {}) as Record<string, JsonObject>;
  const given: JsonObject = { ...(await readJsonObject(optionValue(line, 'arguments'), '--arguments', readInput)) };
  for (const [option, values] of line.options) {
    if ((CALL_OPTIONS as readonly string[]).includes(option) && !claimed.has(option)) continue;
    const negated = option.startsWith('no-') && !hasName(properties, option);
    const name = resolveName(properties, negated ? option.slice(3) : option);
    rejectUnknownArgument(schema, name, '--');
    given[name] = negated ? false : toValue(properties[name], values, name);
  }
  for (const word of [...words, ...line.rest]) {
    const [, name, colon, value] = /^([A-Za-z_][\w.-]*)(:?)=(.*)$/s.exec(word) ?? [];
    if (name === undefined || value === undefined) {
      throw new CliError(
        `Invalid argument ${JSON.stringify(word)}; write name=value, --name value or --arguments JSON`,
        EXIT.usage,
      );
    }
    const known = resolveName(properties, name);
    rejectUnknownArgument(schema, known, '');
    given[known] = colon ? parseJson(value, name) : toValue(properties[known], [value], name);
  }
  return given;
}

/** @throws CliError with a similar name, when the schema has no such argument and does not allow others: they would be dropped */
function rejectUnknownArgument(schema: JsonObject, name: string, prefix: string): void {
  const properties = (schema['properties'] ?? {}) as Record<string, JsonObject>;
  if ((schema['additionalProperties'] ?? false) !== false || Object.hasOwn(properties, name)) return;
  const known = Object.keys(properties);
  const owner = known.find((one) => Object.hasOwn((properties[one]?.['properties'] ?? {}) as object, name));
  const meant =
    owner === undefined
      ? suggestion(name, known, prefix)
      : `; it is a member of ${owner}: --${owner} '${JSON.stringify({ [name]: '…' })}'`;
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
  const text = source === '-' ? await readInput() : isFile ? fileText(source.slice(1), option) : source;
  const value = parseJson(text, option.slice(2));
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw new CliError(`${option} must be a JSON object`, EXIT.usage);
  return value;
}

function fileText(path: string, option: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    throw new CliError(`${option} @${path} cannot be read: ${(error as Error).message}`, EXIT.usage);
  }
}

function parseJson(text: string, name: string): Json {
  let value: Json;
  try {
    value = JSON.parse(text) as Json;
  } catch (error) {
    throw new CliError(`${name} is not valid JSON: ${(error as Error).message}`, EXIT.usage);
  }
  const inexact = inexactNumber(text);
  if (inexact !== undefined) throw new CliError(`${name}: ${inexactNumberMessage(inexact)}`, EXIT.usage);
  return value;
}

function hasName(properties: Record<string, JsonObject>, name: string): boolean {
  return Object.hasOwn(properties, name) || Object.hasOwn(properties, name.replaceAll('-', '_'));
}

function resolveName(properties: Record<string, JsonObject>, name: string): string {
  if (Object.hasOwn(properties, name)) return name;
  const underscored = name.replaceAll('-', '_');
  return Object.hasOwn(properties, underscored) ? underscored : name;
}

function toValue(property: JsonObject | undefined, values: readonly (string | true)[], name: string): Json {
  const types = schemaTypes(property);
  if (types.includes('array')) {
    const items = property?.['items'] as JsonObject | undefined;
    const only = values[0];
    if (values.length === 1 && typeof only === 'string' && only.trimStart().startsWith('['))
      return parseJson(only, name);
    return values.map((value) => scalar(schemaTypes(items), value, name));
  }
  if (values.length > 1)
    throw new CliError(`${name} is given ${values.length} times but accepts one value`, EXIT.usage);
  return scalar(types, values[0] ?? true, name);
}

/** Converts text to a type of the schema. Text that does not convert is kept, and the gateway reports it. */
function scalar(types: readonly string[], value: string | true, name: string): Json {
  if (value === true) {
    if (types.length === 0 || types.includes('boolean')) return true;
    throw new CliError(`--${name} requires a value: --${name} <${types.join(' or ')}>`, EXIT.usage);
  }
  if (types.includes('string')) return value;
  if (types.includes('integer') || types.includes('number'))
    return value.trim() !== '' && Number.isFinite(Number(value)) && !inexactNumber(value) ? Number(value) : value;
  if (types.includes('boolean')) return value === 'true' ? true : value === 'false' ? false : value;
  if (types.includes('object') || types.length === 0) return /^\s*[[{]/.test(value) ? parseJson(value, name) : value;
  return value;
}

function schemaTypes(property: JsonObject | undefined): string[] {
  const type = property?.['type'];
  return typeof type === 'string' ? [type] : Array.isArray(type) ? type.map(String) : [];
}
