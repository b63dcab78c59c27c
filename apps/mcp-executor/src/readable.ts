/**
 * Messages of servers, as far as they can be read. The SDK's schemas refuse a whole message because of one member: here the
 * refused part is left out and named, and the rest is read.
 */
import { specTypeSchemas, type StandardSchemaV1 } from '@modelcontextprotocol/client';
import { isJsonObject, type Json, type JsonObject } from '@toolfleet/contracts';
import { isNestedTooDeep, MAX_BODY_DEPTH } from '@toolfleet/contracts/json-text';

type SpecType = keyof typeof specTypeSchemas;
type Path = readonly PropertyKey[];
/** An issue of a schema; `errors` has the issues of each alternative of a union. */
type Issue = Pick<StandardSchemaV1.Issue, 'message'> & { path?: Path; errors?: readonly (readonly Issue[])[] };

/** Results that the SDK validates, by method. Those of other methods are read where they are used. */
const RESULTS: Readonly<Partial<Record<string, SpecType>>> = {
  initialize: 'InitializeResult',
  'server/discover': 'DiscoverResult',
  'tools/list': 'ListToolsResult',
  'prompts/list': 'ListPromptsResult',
  'resources/list': 'ListResourcesResult',
  'resources/templates/list': 'ListResourceTemplatesResult',
  'prompts/get': 'GetPromptResult',
  'resources/read': 'ReadResourceResult',
  'completion/complete': 'CompleteResult',
};
/** Requests and notifications of servers. */
const SENT: Readonly<Partial<Record<string, SpecType>>> = {
  'elicitation/create': 'ElicitRequest',
  'notifications/progress': 'ProgressNotification',
  'notifications/resources/updated': 'ResourceUpdatedNotification',
};

/** Values of required members that servers omit, by path without the indexes of lists. */
const OMITTED: Readonly<Record<string, Json>> = {
  capabilities: {},
  serverInfo: { name: 'unnamed', version: 'unknown' },
  'serverInfo.name': 'unnamed',
  'serverInfo.version': 'unknown',
  'tools.inputSchema.type': 'object',
  'params.progress': 0,
};

/** Maximum readings of a value: leaving out a part may uncover that its object lacks a member. */
const MAX_READINGS = 12;
/** Maximum number of parts that are named, and maximum length of a name. */
const MAX_DROPPED = 50;
const MAX_NAME = 300;

/**
 * A schema that reads the result of a method and refuses it only if nothing is left.
 * @param dropped gets a line for each part that is left out and was not null
 */
export function resultSchema(method: string, dropped: string[] = []): StandardSchemaV1<unknown, JsonObject> {
  const type = RESULTS[method];
  return {
    '~standard': {
      version: 1,
      vendor: 'toolfleet',
      validate: (value) => {
        if (!isJsonObject(value as Json)) return { issues: [{ message: 'must be an object' }] };
        const read = type === undefined ? value : readAs(type, value as JsonObject, dropped);
        return read === undefined
          ? { issues: [{ message: dropped.at(-1) ?? 'not readable' }] }
          : { value: read as JsonObject };
      },
    },
  };
}

/** The result of a request that opens a session, as far as it can be read. */
export function readOpening(method: string, result: JsonObject): JsonObject {
  const type = RESULTS[method];
  return (type && readAs(type, result)) ?? result;
}

/** A request or notification of a server, as far as it can be read. */
export function readSent<T extends { method: string; params?: object }>(message: T): T {
  const type = SENT[message.method];
  const read = type && readAs(type, { ...message } as JsonObject);
  return read ? { ...message, params: read['params'] } : message;
}

/**
 * A value as its schema accepts it. Refused parts are left out: a member; where that is required, the object that has it, such as one tool
 * of a list. A null counts as absent.
 * @returns undefined when nothing is left
 */
export function readAs(type: SpecType, given: JsonObject, dropped: string[] = []): JsonObject | undefined {
  const schema = specTypeSchemas[type]['~standard'];
  let value = isNestedTooDeep(given) ? withoutDeepItems(given, dropped) : given;
  if (isNestedTooDeep(value)) return undefined;
  for (let readings = 0; readings < MAX_READINGS; readings += 1) {
    const read = schema.validate(value) as StandardSchemaV1.Result<JsonObject>;
    if (!read.issues) return read.value;
    if (readings === 0) value = structuredClone(value);
    const issues = read.issues.flatMap((issue) => leaves(issue as Issue, value));
    // Items of lists are left out from the end, so that the indexes of the others stay.
    for (const { path = [], message } of issues.toSorted((a, b) => compare(b.path ?? [], a.path ?? []))) {
      if (!leaveOut(value, path, message, dropped)) return undefined;
    }
  }
  return undefined;
}

/** A value without items of its lists that schemas cannot check. */
function withoutDeepItems(given: JsonObject, dropped: string[]): JsonObject {
  const value = { ...given };
  const reason = `nested deeper than ${MAX_BODY_DEPTH} levels`;
  for (const [name, list] of Object.entries(given)) {
    if (!Array.isArray(list)) continue;
    value[name] = list.filter((item, at) => !isNestedTooDeep(item) || drop(dropped, given, [name, at], reason));
  }
  return value;
}

function compare(a: Path, b: Path): number {
  const at = a.findIndex((key, index) => key !== b[index]);
  const [mine, other] = [a[at], b[at]];
  if (at === -1 || other === undefined) return a.length - b.length;
  return typeof mine === 'number' && typeof other === 'number' ? mine - other : String(mine) < String(other) ? -1 : 1;
}

/** The issues of the alternative of a union that a value meets best. */
function leaves({ path = [], message, errors }: Issue, root: Json): Issue[] {
  if (!errors) return [{ path, message }];
  const alternatives = errors
    .map((issues) => issues.flatMap((issue) => leaves({ ...issue, path: [...path, ...(issue.path ?? [])] }, root)))
    // An alternative for another type of value is none.
    .filter((issues) => issues.every((issue) => issue.path!.length > path.length && !isOfType(issue.path!, path)));
  const best = alternatives.toSorted((a, b) => a.length - b.length)[0];
  return best ?? [{ path, message: `${message}, ${typeName(valueAt(root, path))}` }];
}

const isOfType = (path: Path, union: Path): boolean =>
  path.length === union.length + 1 && (path.at(-1) === 'type' || path.at(-1) === 'mode');

const typeName = (value: Json | undefined): string =>
  isJsonObject(value ?? null) ? `type ${String((value as JsonObject)['type'])}` : typeof value;

const valueAt = (root: Json, path: Path): Json | undefined =>
  path.reduce<Json | undefined>((value, key) => (value as JsonObject | null | undefined)?.[key as string], root);

/** Leaves out the part that an issue names. @returns false if it is the whole value */
function leaveOut(root: Json, path: Path, reason: string, dropped: string[]): boolean {
  const key = path.at(-1);
  if (key === undefined) return (drop(dropped, root, path, reason), false);
  const owner = valueAt(root, path.slice(0, -1));
  if (typeof owner !== 'object' || owner === null) return true; // left out already
  const value = (owner as JsonObject)[key as string];
  if (value !== undefined) {
    if (value !== null) drop(dropped, root, path, reason);
    if (Array.isArray(owner)) owner.splice(Number(key), 1);
    else delete owner[key as string];
    return true;
  }
  const omitted = OMITTED[path.filter((step) => typeof step !== 'number').join('.')];
  if (omitted === undefined) return leaveOut(root, path.slice(0, -1), `${String(key)}: ${reason}`, dropped);
  (owner as JsonObject)[key as string] = structuredClone(omitted);
  return true;
}

/** Names a part by the item of the list that has it. @returns false */
function drop(dropped: string[], root: Json, path: Path, reason: string): false {
  if (dropped.length >= MAX_DROPPED) return false;
  const at = path.findIndex((key) => typeof key === 'number');
  const item = at === -1 ? undefined : valueAt(root, path.slice(0, at + 1));
  const { name, uri, uriTemplate } = isJsonObject(item ?? null) ? (item as JsonObject) : ({} as JsonObject);
  const called = [name, uri, uriTemplate].find((one) => typeof one === 'string' && one !== '');
  const place = called === undefined ? path.slice(0, at + 1).join(' ') : String(called);
  const rest = [place, ...(at === -1 ? path : path.slice(at + 1))].filter((step) => step !== '').join('.');
  dropped.push(
    [rest, reason]
      .filter(Boolean)
      .join(': ')
      .replaceAll('Invalid input: ', '')
      .replaceAll(/\s+/g, ' ')
      .slice(0, MAX_NAME),
  );
  return false;
}
