/** Controllers serve rows of the table of routes; method, path, status, rights and readers come from there. */
import {
  createParamDecorator,
  HttpCode,
  RequestMapping,
  RequestMethod,
  UseInterceptors,
  type ExecutionContext,
} from '@nestjs/common';
import { isJsonObject, ToolError, type Json, type JsonObject } from '@toolfleet/contracts';
import { rejectUnknownFields } from '@toolfleet/contracts/call-fields';
import { ROUTES, type Route, type RouteAnswer, type RouteInput, type RouteKey } from '@toolfleet/contracts/resources';
import { compileSchema, explainErrors } from '@toolfleet/bounded-schema';
import {
  ArrayMaxSize,
  ArrayMinSize,
  IsArray,
  IsBoolean,
  IsIn,
  IsInt,
  IsNumber,
  IsObject,
  IsOptional,
  IsString,
  Matches,
  Max,
  MaxLength,
  Min,
  MinLength,
  validateSync,
} from 'class-validator';
import type { FastifyRequest } from 'fastify';
import { AuditChanges, isAudited, ROUTE } from './change-log.js';
import { Allow } from './guards.js';
import { bodyObject } from './request-body.js';

/** Methods that may serve a route: their answer is one of the table. */
type Serving<K extends RouteKey> = (...args: never[]) => Promise<WrittenReply<K>> | WrittenReply<K>;
type WrittenReply<K extends RouteKey> =
  | RouteAnswer<K>
  | ((typeof ROUTES)[K]['answers'] extends { 200: { textTypes: readonly string[] } } ? string : never);

/** Method decorator: serves a route of the table. */
export function Serves<K extends RouteKey>(key: K) {
  const { access = 'caller', answers }: Route = ROUTES[key];
  const [method, path] = key.split(' ') as ['GET' | 'POST' | 'PUT' | 'DELETE', string];
  const decorators = [
    RequestMapping({ method: RequestMethod[method], path: path.replaceAll(/\{(\w+)\}/g, ':$1') }),
    HttpCode(Number(Object.keys(answers)[0])),
    Allow(access),
    ...(isAudited(key) ? [UseInterceptors(AuditChanges)] : []),
  ];
  return <H extends Serving<K>>(target: object, name: string, descriptor: TypedPropertyDescriptor<H>): void => {
    for (const decorate of decorators) decorate(target, name, descriptor);
    Reflect.defineMetadata(ROUTE, key, descriptor.value as object);
  };
}

/** The route that a method of a controller serves; undefined if it serves none. */
export const servedRoute = (handler: object): RouteKey | undefined =>
  Reflect.getMetadata(ROUTE, handler) as RouteKey | undefined;

/** Parameter decorator: path, query and body of the request, checked by the table. @throws ToolError REQUEST_INVALID */
export const Input = createParamDecorator((_: unknown, context: ExecutionContext) =>
  readInput(servedRoute(context.getHandler()) as RouteKey, context.switchToHttp().getRequest<FastifyRequest>()),
);

const READERS = new Map<RouteKey, { query: Reader; body: Reader }>(
  (Object.entries(ROUTES) as [RouteKey, Route][]).map(([key, { query, body, readsBody }]) => [
    key,
    {
      query: query ? readerOf(query, fromText) : () => undefined,
      body: body && !readsBody ? readerOf(body) : (sent) => sent,
    },
  ]),
);

/** Path, query and body of a request. @throws ToolError REQUEST_INVALID that names every fault */
export function readInput<K extends RouteKey>(key: K, { params, query, body }: FastifyRequest): RouteInput<K> {
  const reader = READERS.get(key)!;
  return { path: params, query: reader.query(query), body: reader.body(body) } as RouteInput<K>;
}

type Reader = (sent: unknown) => unknown;

/**
 * Builds the reader of an object: it refuses unknown members (mass assignment) and checks known ones with class-validator, by rules
 * made from their schemas. What is in members that describe their own members is checked by the schema; the arguments of tools stay as
 * parsed.
 */
function readerOf(
  schema: JsonObject,
  convert: (schema: JsonObject, value: Json) => Json = (_, value) => value,
): Reader {
  const properties = schema['properties'] as Record<string, JsonObject>;
  const required = (schema['required'] ?? []) as string[];
  class Dto {}
  for (const [name, member] of Object.entries(properties)) {
    const checks = [...checksOf(member), ...(required.includes(name) ? [] : [IsOptional()])];
    for (const decorate of checks) decorate(Dto.prototype, name);
  }
  const nested = new Set(Object.keys(properties).filter((name) => isNested(properties[name]!)));
  const objects = new Set(
    Object.keys(properties).filter((name) => properties[name]!['type'] === 'object' && !nested.has(name)),
  );
  return (sent) => {
    const source = bodyObject(sent);
    const names = Object.keys(source);
    // Most calls send arguments and nothing else. The library would compare the class with all routes' classes.
    const isPlain = names.every((name) => objects.has(name) && isJsonObject(source[name]));
    if (isPlain && required.every((name) => Object.hasOwn(source, name))) return { ...source };
    const unknown = names.filter((name) => !Object.hasOwn(properties, name));
    rejectUnknownFields(unknown, Object.keys(properties));
    const dto = Object.assign(new Dto(), source) as Record<string, Json>;
    for (const [name, value] of Object.entries(dto)) dto[name] = convert(properties[name] as JsonObject, value);
    const faults = validateSync(dto);
    if (faults.length === 0) {
      if (names.some((name) => nested.has(name))) requireValid(schema, dto);
      return dto;
    }
    const reasons = faults.flatMap(({ constraints = {} }) => [...new Set(Object.values(constraints))]);
    throw new ToolError('REQUEST_INVALID', {
      message: `Invalid request: ${reasons.join('; ')}`,
      details: { fields: faults.map(({ property }) => property), reasons },
    });
  };
}

/** Whether a schema describes the members of an object or of the objects of a list. */
function isNested({ type, properties, additionalProperties, items }: JsonObject): boolean {
  if (type === 'array') return isJsonObject(items) && items['type'] !== 'string' && !Array.isArray(items['enum']);
  return type === 'object' && (properties !== undefined || additionalProperties !== undefined);
}

function requireValid(schema: JsonObject, value: JsonObject): void {
  const compiled = compileSchema(schema);
  const faults = compiled.check(value) ? [] : explainErrors(compiled.errors(value));
  if (faults.length === 0) return;
  throw new ToolError('REQUEST_INVALID', {
    message: `Invalid request: ${faults.map(({ path, message }) => `${path}: ${message}`).join('; ')}`,
    details: { fields: faults.map(({ path }) => path) },
  });
}

/** A number or boolean of a query; other text unchanged, for the check to refuse. */
function fromText({ type }: JsonObject, text: Json): Json {
  if (type === 'integer') return /^-?\d{1,15}$/.test(String(text)) ? Number(text) : text;
  return type === 'boolean' && (text === 'true' || text === 'false') ? text === 'true' : text;
}

/** The checks of one member. Each has the message that describes the whole rule. */
function checksOf({ type, enum: values, title, items, ...rules }: JsonObject): PropertyDecorator[] {
  const { minLength, maxLength, minimum, maximum, pattern, minItems, maxItems } = rules as Record<string, never>;
  const must = (what: string) => ({ message: `$property must be ${typeof title === 'string' ? title : what}` });
  if (Array.isArray(values)) return [IsIn(values, must(`one of ${values.join(', ')}`))];
  switch (type) {
    case 'string': {
      const length = [minLength && `at least ${minLength}`, maxLength && `at most ${maxLength}`].filter(Boolean);
      const options = must(length.length === 0 ? 'a string' : `a string of ${length.join(' and ')} characters`);
      return [
        IsString(options),
        ...(minLength === undefined ? [] : [MinLength(minLength, options)]),
        ...(maxLength === undefined ? [] : [MaxLength(maxLength, options)]),
        ...(pattern === undefined ? [] : [Matches(new RegExp(pattern), options)]),
      ];
    }
    case 'integer': {
      const range = maximum === undefined ? `of at least ${minimum}` : `from ${minimum} to ${maximum}`;
      const options = must(`an integer ${range}`);
      return [
        IsInt(options),
        Min(minimum ?? Number.MIN_SAFE_INTEGER, options),
        Max(maximum ?? Number.MAX_SAFE_INTEGER, options),
      ];
    }
    case 'number': {
      const options = must(`a number from ${minimum} to ${maximum}`);
      return [IsNumber({}, options), Min(minimum ?? -Infinity, options), Max(maximum ?? Infinity, options)];
    }
    case 'boolean':
      return [IsBoolean(must('true or false'))];
    case 'array': {
      const allowed = isJsonObject(items) && Array.isArray(items['enum']) ? items['enum'] : undefined;
      const options = must(allowed ? `a list of ${allowed.join(', ')}` : 'a list of strings');
      const each = isJsonObject(items) && items['type'] === 'string' ? [IsString({ each: true, ...options })] : [];
      return [
        IsArray(options),
        ...each,
        ...(allowed ? [IsIn(allowed, { each: true, ...options })] : []),
        ...(minItems === undefined ? [] : [ArrayMinSize(minItems, options)]),
        ...(maxItems === undefined ? [] : [ArrayMaxSize(maxItems, options)]),
      ];
    }
    default:
      return [IsObject(must('an object'))];
  }
}
