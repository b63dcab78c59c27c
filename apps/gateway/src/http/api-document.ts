import { CATALOGUE, isJsonObject, jsonObject, type ErrorCode, type Json, type JsonObject } from '@toolfleet/contracts';
import { maybe, named, nameOf, object, record, text, integer, type Schema } from '@toolfleet/contracts/json-schema';
import { ROLES } from '@toolfleet/contracts/roles';
import { ROUTES, TAGS, type Access, type Answer, type Route } from '@toolfleet/contracts/resources';

const ERROR = named(
  'Error',
  record({
    error: text('What happened; unlike code it may change'),
    code: maybe(text()),
    hint: maybe(text('What the caller can do')),
    details: maybe(object()),
    call_id: maybe(text()),
    retry_after_ms: maybe(integer()),
  }),
);
/** Every code of a refused request that a call can meet at one of its steps. */
const CALL_ERRORS = (Object.keys(CATALOGUE) as ErrorCode[]).filter((code) => CATALOGUE[code].origin === 'request');
const AUTHENTICATED: readonly ErrorCode[] = [
  'UNAUTHENTICATED',
  'PERMISSION_DENIED',
  'RATE_LIMITED',
  'SERVICE_UNAVAILABLE',
];

/** Who may use a route, in a sentence; empty for every caller. */
function needs(access: Access): string {
  if (access === 'public') return 'Needs no credential.';
  if (access === 'caller') return '';
  if (access === 'registrar') return 'Needs the right manage_sources, or the registration token.';
  const roles = Object.keys(ROLES).filter((role) => ROLES[role]!.includes(access));
  return `Needs the right ${access}, as the role ${roles.join(' or ')} has.`;
}

/**
 * The HTTP API as an OpenAPI 3.1 document, served at `/openapi.json`, from the table of routes. Refusals come from the error
 * catalogue.
 */
export function apiDocument(version: string): JsonObject {
  const schemas: JsonObject = {};
  const paths: Record<string, JsonObject> = {};
  for (const [key, route] of Object.entries(ROUTES) as [string, Route][]) {
    const [method = '', path = ''] = key.split(' ');
    (paths[path] ??= {})[method.toLowerCase()] = operation(path, route, schemas);
  }
  return {
    openapi: '3.1.0',
    info: {
      title: 'toolfleet',
      version,
      description: 'Runs the tool calls of agents and services. Errors: /docs/errors. MCP is served at /mcp.',
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    servers: [{ url: '/', description: 'The gateway that serves this document' }],
    tags: Object.entries(TAGS).map(([name, description]) => ({ name, description })),
    security: [{ bearer: [] }, { apiKey: [] }],
    paths,
    components: {
      securitySchemes: {
        bearer: { type: 'http', scheme: 'bearer' },
        apiKey: { type: 'apiKey', in: 'header', name: 'X-API-Key' },
      },
      schemas,
    },
  };
}

function operation(path: string, route: Route, schemas: JsonObject): JsonObject {
  const { id, tag, summary, access = 'caller', query, headers, body, example, answers } = route;
  const shown = (schema: Schema) => toReferences(schema, schemas);
  const inPath = [...path.matchAll(/\{(\w+)\}/g)].map(([, name = '']) => ({
    ...parameter('path', name, shown(route.path?.[name] ?? text())),
    required: true,
  }));
  const parameters = [...inPath, ...parametersOf('query', query, shown), ...parametersOf('header', headers, shown)];
  const responses = Object.entries(answers).map(([status, one]) => [status, response(one, shown)] as const);
  const described: JsonObject = { operationId: id, tags: [tag], summary };
  const description = needs(access);
  if (description !== '') described.description = description;
  if (access === 'public') described.security = [];
  if (parameters.length > 0) described.parameters = parameters;
  if (body) described.requestBody = { required: true, content: content(shown(body), 'application/json', example) };
  described.responses = { ...Object.fromEntries(responses), ...refusals(path, route, shown(ERROR)) };
  return described;
}

const content = (schema: JsonObject, type: string, example: Json | undefined): JsonObject => ({
  [type]: example === undefined ? { schema } : { schema, example },
});

function response(
  { description, schema, type = 'application/json', textTypes = [], example }: Answer,
  shown: Show,
): JsonObject {
  if (!schema) return { description };
  const texts = textTypes.map((other) => [other, { schema: { type: 'string' } }]);
  return { description, content: { ...content(shown(schema), type, example), ...Object.fromEntries(texts) } };
}

type Show = (schema: Schema) => JsonObject;

function parametersOf(place: 'query' | 'header', fields: Schema | undefined, shown: Show): JsonObject[] {
  const properties = (fields?.['properties'] ?? {}) as Record<string, JsonObject>;
  return Object.entries(properties).map(([name, schema]) => parameter(place, name, shown(schema)));
}

function parameter(place: 'path' | 'query' | 'header', name: string, schema: JsonObject): JsonObject {
  const { description, ...rest } = schema;
  return jsonObject({ name, in: place, description, schema: rest });
}

/** Responses of the refusals that can happen, by status, each with its error codes. */
function refusals(path: string, { access = 'caller', query, body, errors = [] }: Route, error: JsonObject): JsonObject {
  const { toolset } = (query?.['properties'] ?? {}) as JsonObject;
  const refused = new Set<ErrorCode>([
    ...(access === 'public' ? [] : AUTHENTICATED),
    ...(query || body ? (['REQUEST_INVALID'] as const) : []),
    ...(body ? (['PAYLOAD_TOO_LARGE'] as const) : []),
    ...(path.includes('{') || toolset ? (['NOT_FOUND'] as const) : []),
    ...(errors === 'call' ? CALL_ERRORS : errors),
    'INTERNAL',
  ]);
  const byStatus = Map.groupBy(refused, (code) => CATALOGUE[code].http);
  const responses = [...byStatus].map(([status, codes]) => {
    const example = { error: CATALOGUE[codes[0]!].hint, code: codes[0]! };
    return [status, { description: codes.toSorted().join(', '), content: content(error, 'application/json', example) }];
  });
  return Object.fromEntries(responses) as JsonObject;
}

/** A schema in which each named part is a reference to `schemas`, where it is added. */
function toReferences<T extends Json>(schema: T, schemas: JsonObject): T {
  if (Array.isArray(schema)) return schema.map((item) => toReferences(item, schemas)) as T;
  if (!isJsonObject(schema)) return schema;
  const copy = Object.fromEntries(
    Object.entries(schema).map(([key, part]) => [key, toReferences(part, schemas)]),
  ) as JsonObject;
  // Without it, generators of clients take an object of any members for one without members.
  if (copy.type === 'object' && Object.keys(copy).every((key) => key === 'type' || key === 'description'))
    copy.additionalProperties = true;
  const name = nameOf(schema);
  if (name === undefined) return copy as T;
  schemas[name] = copy;
  return { $ref: `#/components/schemas/${name}` } as unknown as T;
}
