import { isJsonObject, type Json, type JsonObject } from '@toolfleet/contracts';
import { suggestion } from '@toolfleet/contracts/text';
import { compileSchema, type CompiledSchema } from '@toolfleet/bounded-schema';
import { readSelect } from '@toolfleet/bounded-schema/select';

/** Faults in a configuration file or a registration. */
export interface Fault {
  /** Place in the file, such as `mcp_servers.crm.url`; empty for the whole. */
  path: string;
  /** The rest of a sentence that begins with the path. */
  message: string;
  /** The key does not exist. */
  isUnknownKey?: true;
}

/** More known keys than this are not listed in a message. */
const MAX_LISTED = 12;
const MAX_SHOWN = 60;

/** Checks a value against a schema of schema.ts and the expressions of `select` in it. */
export function findFaults(schema: JsonObject, value: Json, path: string): Fault[] {
  const errors = compileSchema(schema).errors(value);
  const unions = errors.filter(({ keyword }) => keyword === 'oneOf').map(({ schemaPath }) => schemaPath);
  const faults = errors
    // The error of a union explains enough; `propertyNames` repeats the error of the name.
    .filter(({ schemaPath, keyword, propertyName }) => {
      const isInUnion = unions.some((union) => schemaPath.startsWith(`${union}/`));
      return !isInUnion && (keyword === 'propertyNames' || propertyName === undefined);
    })
    .map((error) => explain(error, path));
  // A value that fits several forms of a union, and then breaks a rule for all of them, has the same line twice.
  const distinct = new Map(faults.map((fault) => [faultLine(fault), fault]));
  return faults.length > 0 ? [...distinct.values()] : selectFaults(value, path);
}

/** The path of a member. */
export function memberPath(path: string, name: string): string {
  const shown = name.slice(0, MAX_SHOWN);
  if (!/^[\w@-]+$/.test(shown)) return `${path}[${JSON.stringify(shown)}]`;
  return path === '' ? shown : `${path}.${shown}`;
}

/** `path message`, or the message alone for the whole. */
export function faultLine({ path, message }: Fault): string {
  return path === '' ? message : `${path} ${message}`;
}

type SchemaError = ReturnType<CompiledSchema['errors']>[number];

function explain(error: SchemaError, root: string): Fault {
  const { keyword, data, message = 'is invalid' } = error;
  const params = error.params as Record<string, Json>;
  const schema = error.parentSchema as JsonObject;
  const path = error.instancePath
    .split('/')
    .slice(1)
    .map((token) => token.replaceAll('~1', '/').replaceAll('~0', '~'))
    .reduce(memberPath, root);
  if (keyword === 'additionalProperties') {
    const key = String(params.additionalProperty);
    const known = isJsonObject(schema.properties) ? Object.keys(schema.properties) : [];
    const meant = suggestion(key, known) || (known.length <= MAX_LISTED ? `; known: ${known.join(', ')}` : '');
    return { path: memberPath(path, key), message: `is an unknown key${meant}`, isUnknownKey: true };
  }
  if (keyword === 'propertyNames') {
    const name = String(params.propertyName).slice(0, MAX_SHOWN);
    return { path, message: `has the name ${JSON.stringify(name)}, which must be ${expected(schema.propertyNames)}` };
  }
  if (keyword === 'required') return { path, message: `needs ${String(params.missingProperty)}` };
  if (keyword.startsWith('max') && !keyword.endsWith('imum')) return { path, message };
  // Values that are not of the expected type can be secrets in the wrong place.
  const isShown = ['number', 'boolean'].includes(typeof data) || (keyword === 'enum' && typeof data === 'string');
  return {
    path,
    message: `must be ${expected(schema)}${isShown ? `, not ${JSON.stringify(data).slice(0, MAX_SHOWN)}` : ''}`,
  };
}

const TYPES: Record<string, string> = {
  string: 'a string',
  number: 'a number',
  integer: 'an integer',
  boolean: 'true or false',
  object: 'a mapping',
  array: 'a list',
  null: 'null',
};

/** The values that a schema admits, to follow "must be". */
function expected(schema: Json | undefined): string {
  if (!isJsonObject(schema)) return 'valid';
  if (typeof schema.title === 'string') return schema.title;
  if (Array.isArray(schema.enum)) return `one of ${schema.enum.join(', ')}`;
  if (schema.type === 'array' && isJsonObject(schema.items) && schema.items.type === 'string')
    return 'a list of strings';
  const type = [schema.type ?? []]
    .flat()
    .map((one) => TYPES[String(one)] ?? String(one))
    .join(' or ');
  const { minimum, maximum, exclusiveMinimum } = schema;
  if (minimum !== undefined && maximum !== undefined) return `${type} from ${String(minimum)} to ${String(maximum)}`;
  if (minimum !== undefined) return `${type}, ${String(minimum)} or more`;
  if (exclusiveMinimum !== undefined) return `${type} above ${String(exclusiveMinimum)}, at most ${String(maximum)}`;
  return type;
}

/** Expressions of the tool setting `select` that do not parse, in the entry itself and in settings by name pattern. */
function selectFaults(value: Json, path: string): Fault[] {
  if (!isJsonObject(value)) return [];
  return Object.entries(value).flatMap(([name, member]): Fault[] => {
    const at = memberPath(path, name);
    if (name !== 'select') return name === 'stub_data' ? [] : selectFaults(member, at);
    try {
      readSelect(String(member));
      return [];
    } catch (error) {
      return [{ path: at, message: `is not a selection: ${(error as Error).message}` }];
    }
  });
}
