import { isJsonObject, type Json, type JsonObject } from '@toolfleet/base';
import { escapeToken, objectAt, setOwn, stringAt } from '../json-pointer.js';
import type { BodyPlan, PropertyEncoding } from '../plan.js';
import type { ParameterContext } from './convert-parameters.js';
import { toObject } from './convert-schema.js';
import type { RawOperation } from './expand-operations.js';
import { bodyKind, preferredType, sendableType } from './media-types.js';
import { holdsReference } from './repair-keywords.js';

/** The request body as the argument `body`, and its plan. */
export interface ConvertedBody {
  schema: JsonObject;
  targets: Set<string>;
  plan: BodyPlan;
}

/** A file in a multipart body. */
const FILE_SCHEMA: JsonObject = {
  type: 'object',
  description: 'A file',
  properties: {
    content_base64: { type: 'string', contentEncoding: 'base64', description: 'Content of the file, base64' },
    filename: { type: 'string' },
    content_type: { type: 'string', description: 'Media type of the file' },
  },
  required: ['content_base64'],
  additionalProperties: false,
};

/** Maximum number of schemas searched for files in one body. */
const MAX_PARTS = 500;

/** Converts the request body of an operation; undefined when there is none. */
export function convertBody(operation: RawOperation, context: ParameterContext): ConvertedBody | undefined {
  if (operation.node.requestBody === undefined) return undefined;
  const pointer = `${operation.pointer}/requestBody`;
  const followed = context.refs.follow(operation.node.requestBody, pointer);
  if ('failed' in followed) {
    context.findings.warn(
      pointer,
      `the request body cannot be read (${followed.failed}: ${followed.ref.slice(0, 200)})`,
    );
    return undefined;
  }
  const content = objectAt(followed.node, 'content') ?? {};
  const mediaType = preferredType(content);
  if (mediaType === undefined) {
    context.findings.warn(followed.pointer, 'a request body without content is left out');
    return undefined;
  }
  const media = objectAt(content, mediaType);
  const at = `${followed.pointer}/content/${escapeToken(mediaType)}/schema`;
  const converted = context.converter.convert(media?.schema, at);
  const schema = toObject(converted.schema);
  let kind = bodyKind(mediaType);
  if (kind === 'json' && mediaType.includes('*') && isBinary(media?.schema, context)) kind = 'binary';
  const plan: BodyPlan = {
    content_type: sendableType(mediaType, kind),
    kind,
    required: followed.node.required === true,
  };
  const body: ConvertedBody = { schema, targets: converted.targets, plan };
  if (kind === 'form' || kind === 'multipart') addEncoding(plan, media);
  if (kind === 'multipart') addFiles(body, media?.schema, context);
  if (kind === 'binary') body.schema = binarySchema(schema);
  if (kind === 'xml') addXml(body, media?.schema);
  if (kind === 'text' && !accepts(body.schema, 'string')) body.schema = { anyOf: [{ type: 'string' }, body.schema] };
  describe(body, followed.node, media);
  return body;
}

function describe(body: ConvertedBody, requestBody: JsonObject, media: JsonObject | undefined): void {
  const description = stringAt(requestBody, 'description');
  if (description !== undefined && body.schema.description === undefined) body.schema = { ...body.schema, description };
  if (body.plan.kind !== 'json' || body.schema.examples !== undefined || media === undefined) return;
  if (media.example !== undefined && !holdsReference(media.example))
    body.schema = { ...body.schema, examples: [media.example] };
}

function addEncoding(plan: BodyPlan, media: JsonObject | undefined): void {
  const source = objectAt(media, 'encoding');
  if (!source) return;
  const encoding: { [property: string]: PropertyEncoding } = {};
  for (const name of Object.keys(source)) {
    const node = objectAt(source, name);
    if (!node) continue;
    const entry: PropertyEncoding = {};
    const contentType = stringAt(node, 'contentType');
    const style = stringAt(node, 'style');
    if (contentType !== undefined) entry.content_type = contentType;
    if (style !== undefined) entry.style = style;
    if (typeof node.explode === 'boolean') entry.explode = node.explode;
    if (typeof node.allowReserved === 'boolean') entry.allow_reserved = node.allowReserved;
    setOwn(encoding, name, entry);
  }
  plan.encoding = encoding;
}

/** Binary properties take `{content_base64, filename, content_type}`, also behind `$ref`, in `allOf` and in arrays. */
function addFiles(body: ConvertedBody, source: Json | undefined, context: ParameterContext): void {
  const files = new Map<string, 'one' | 'many'>();
  collectFiles(source, files, body.plan, context, new Set());
  if (files.size === 0) return;
  body.plan.files = [...files.keys()];
  const properties: JsonObject = {};
  for (const [name, amount] of files) {
    setOwn(properties, name, amount === 'one' ? FILE_SCHEMA : { type: 'array', items: FILE_SCHEMA });
  }
  body.schema = replaceProperties(body, properties, context);
}

function collectFiles(
  schema: Json | undefined,
  files: Map<string, 'one' | 'many'>,
  plan: BodyPlan,
  context: ParameterContext,
  seen: Set<JsonObject>,
): void {
  const node = context.refs.nodeOf(schema);
  if (!node || seen.has(node) || seen.size > MAX_PARTS) return;
  seen.add(node);
  const properties = objectAt(node, 'properties') ?? {};
  for (const name of Object.keys(properties)) {
    const property = context.refs.nodeOf(properties[name]);
    if (isBinary(property, context) || (property && isOpaque(property) && encodedAsBinary(plan, name)))
      files.set(name, 'one');
    else if (property && isBinary(property.items, context)) files.set(name, 'many');
  }
  for (const keyword of ['allOf', 'anyOf', 'oneOf']) {
    const members = node[keyword];
    if (Array.isArray(members)) for (const member of members) collectFiles(member, files, plan, context, seen);
  }
}

/** Copies the body schema with its file properties replaced; shared definitions are not changed. */
function replaceProperties(body: ConvertedBody, properties: JsonObject, context: ParameterContext): JsonObject {
  let parts = 0;
  const replace = (schema: Json): Json => {
    parts += 1;
    if (!isJsonObject(schema) || parts > MAX_PARTS) return schema;
    let copy: JsonObject = { ...schema };
    if (typeof copy.$ref === 'string') {
      const target = [...body.targets].find(
        (pointer) => `#/$defs/${context.converter.names.get(pointer)}` === copy.$ref,
      );
      if (target === undefined) return copy;
      const definition = context.converter.definition(target);
      for (const further of definition.targets) body.targets.add(further);
      const { $ref: _ref, ...siblings } = copy;
      copy = { ...(isJsonObject(definition.schema) ? definition.schema : {}), ...siblings };
    }
    if (isJsonObject(copy.properties)) {
      const merged: JsonObject = {};
      for (const [name, value] of Object.entries(copy.properties)) {
        setOwn(merged, name, Object.hasOwn(properties, name) ? (properties[name] as Json) : value);
      }
      copy.properties = merged;
    }
    for (const keyword of ['allOf', 'anyOf', 'oneOf']) {
      const members = copy[keyword];
      if (Array.isArray(members)) copy[keyword] = members.map(replace);
    }
    return copy;
  };
  return replace(body.schema) as JsonObject;
}

/** 3.0: `type: string, format: binary`; 3.1: `contentMediaType` without `contentEncoding`. */
function isBinary(schema: Json | undefined, context: ParameterContext): boolean {
  const node = context.refs.nodeOf(schema);
  if (!node) return false;
  if (node.type === 'file' || ((node.type === 'string' || node.type === undefined) && node.format === 'binary'))
    return true;
  if (Array.isArray(node.type) && node.type.includes('string') && node.format === 'binary') return true;
  if (typeof node.contentMediaType === 'string' && node.contentEncoding === undefined) {
    return bodyKind(node.contentMediaType) === 'binary';
  }
  const single = Array.isArray(node.allOf) && node.allOf.length === 1 ? node.allOf[0] : undefined;
  return single !== undefined && isBinary(single, context);
}

/** 3.1 leaves the schema of a binary part empty. */
function isOpaque(schema: JsonObject): boolean {
  return (
    schema.type === undefined &&
    schema.properties === undefined &&
    schema.items === undefined &&
    schema.enum === undefined
  );
}

function encodedAsBinary(plan: BodyPlan, name: string): boolean {
  const type = plan.encoding && Object.hasOwn(plan.encoding, name) ? plan.encoding[name]?.content_type : undefined;
  return type !== undefined && !type.includes('*/*') && bodyKind(type.split(',')[0] as string) === 'binary';
}

function binarySchema(schema: JsonObject): JsonObject {
  if (!accepts(schema, 'string')) return { anyOf: [{ type: 'string', contentEncoding: 'base64' }, schema] };
  const {
    format: _format,
    contentMediaType: _type,
    pattern: _pattern,
    maxLength: _max,
    minLength: _min,
    examples: _examples, // raw content, not base64
    default: _default,
    enum: _enum,
    ...rest
  } = schema;
  return { description: 'Content, base64', ...rest, type: 'string', contentEncoding: 'base64' };
}

function addXml(body: ConvertedBody, source: Json | undefined): void {
  const node = isJsonObject(source) ? source : undefined;
  const ref = stringAt(node, '$ref');
  body.plan.root = stringAt(objectAt(node, 'xml'), 'name') ?? (ref ? ref.slice(ref.lastIndexOf('/') + 1) : 'root');
  if (accepts(body.schema, 'string')) return;
  body.schema = { anyOf: [{ type: 'string', description: 'The XML text, sent unchanged' }, body.schema] };
}

function accepts(schema: JsonObject, type: string): boolean {
  if (schema.$ref !== undefined || schema.properties !== undefined || schema.items !== undefined) return false;
  if (schema.type === undefined)
    return schema.allOf === undefined && schema.anyOf === undefined && schema.oneOf === undefined;
  return schema.type === type || (Array.isArray(schema.type) && schema.type.includes(type));
}
