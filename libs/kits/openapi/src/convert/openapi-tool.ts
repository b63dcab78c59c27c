import { isJsonObject, type Json, type JsonObject } from '@toolfleet/base';
import { inlineDefinitions, type SchemaStyle } from '@toolfleet/bounded-schema';
import { escapeToken, objectAt, setOwn, stringAt } from '../json-pointer.js';
import type { OperationPlan, ParameterPlace } from '../plan.js';
import { convertBody, type ConvertedBody } from './convert-body.js';
import { convertParameters, type ConvertedParameters } from './convert-parameters.js';
import type { RawOperation } from './expand-operations.js';
import { isReadable } from './naming.js';
import { isJsonType } from './media-types.js';
import { toStrings, SecurityReader } from './read-security.js';
import { selectServer, type ServerOptions } from './select-server.js';
import type { Findings } from '../findings.js';
import type { SpecDocument } from '../load/parse-spec.js';
import { RefResolver } from '../load/references.js';
import { DefsCollector } from './collect-defs.js';
import { SchemaConverter } from './convert-schema.js';

/** Options of a registration. */
export interface ConvertOptions extends ServerOptions {
  /** operationIds or generated tool names to convert; unset: all operations. */
  operations?: readonly string[];
  /** Operations that have one of these tags. */
  tags?: readonly string[];
  /** Prefix of every tool name. */
  namePrefix?: string;
  /** `defs` (default) keeps `$defs`; `inline` expands references. */
  schemaStyle?: SchemaStyle;
  /** Parameters that credentials or static configuration supply: the model never sees them. */
  isSupplied?: (place: ParameterPlace, name: string) => boolean;
  /** Whether the validator of arguments accepts a pattern; others are dropped with a warning. */
  acceptsPattern?: (pattern: string) => boolean;
}

/** Parts shared by the tools of one document. */
export interface ToolContext {
  document: SpecDocument;
  refs: RefResolver;
  request: SchemaConverter;
  response: SchemaConverter;
  requestDefs: DefsCollector;
  responseDefs: DefsCollector;
  security: SecurityReader;
  findings: Findings;
  options: ConvertOptions;
  /** The operation converted last. */
  latest: { operation?: RawOperation; converted?: ConvertedOperation };
}

/** Maximum length of a description shown to a model, in UTF-16 units. */
const MAX_DESCRIPTION = 1_000;
/** Maximum size of an `output_schema`, in UTF-16 units of JSON. */
const MAX_OUTPUT_SCHEMA = 4_096;
/** Maximum number of definitions in an `output_schema`. */
const MAX_OUTPUT_DEFINITIONS = 16;
/** Methods that RFC 9110 section 9.2.2 calls idempotent. */
const IDEMPOTENT: ReadonlySet<string> = new Set(['GET', 'HEAD', 'OPTIONS', 'PUT', 'DELETE', 'QUERY']);

/** Parameters and body of an operation, converted. */
interface ConvertedOperation {
  parameters: ConvertedParameters;
  body: ConvertedBody | undefined;
}

/**
 * One operation as a tool. Name and description are available at once; schemas and plan are built on demand, because the largest
 * documents have 22,000 operations, most of which are only listed.
 */
export class OpenApiTool {
  constructor(
    readonly name: string,
    private readonly operation: RawOperation,
    private readonly context: ToolContext,
  ) {}

  get method(): string {
    return this.operation.method;
  }

  get path(): string {
    return this.operation.path;
  }

  /** As written in the document; a generated `method_path` name when there is none. */
  get operationId(): string {
    return this.operation.operationId ?? this.name;
  }

  get tags(): string[] {
    return toStrings(this.operation.node.tags);
  }

  get idempotent(): boolean {
    return IDEMPOTENT.has(this.method);
  }

  /** Summary, an operationId that the name does not show, then as much of the description as fits. */
  get description(): string {
    const { node, pathItem } = this.operation;
    const summary = (stringAt(node, 'summary') ?? stringAt(pathItem, 'summary') ?? '').trim();
    const long = (stringAt(node, 'description') ?? stringAt(pathItem, 'description') ?? '').trim();
    const id = isReadable(this.operation.operationId) ? '' : (this.operation.operationId ?? '');
    const parts = long === '' || long === summary ? [summary, id] : [summary, id, long];
    const text = parts.filter((part) => part !== '').join('\n\n') || `${this.method} ${this.path}`;
    return text.length <= MAX_DESCRIPTION ? text : `${text.slice(0, MAX_DESCRIPTION - 1).trimEnd()}…`;
  }

  /** JSON Schema 2020-12 of the arguments; no reference outside `#/$defs/`. */
  inputSchema(): JsonObject {
    const { parameters, body } = this.convert();
    const properties: JsonObject = { ...parameters.properties };
    const required = [...parameters.required];
    const targets = new Set(parameters.targets);
    if (body) {
      setOwn(properties, 'body', body.schema);
      if (body.plan.required) required.push('body');
      for (const target of body.targets) targets.add(target);
    }
    const schema: JsonObject = { type: 'object', properties };
    if (required.length > 0) schema.required = required;
    schema.additionalProperties = false;
    const definitions = this.context.requestDefs.collect(targets);
    if (definitions && definitions !== 'too_many') schema.$defs = definitions;
    return this.context.options.schemaStyle === 'inline' ? inlineDefinitions(schema) : schema;
  }

  /** Schema of the JSON answer to a success, when there is one and it is small. */
  outputSchema(): JsonObject | undefined {
    const found = this.successMedia().find(({ type, media }) => isJsonType(type) && isJsonObject(media.schema));
    if (!found) return undefined;
    const converted = this.context.response.convert(found.media.schema, `${found.pointer}/schema`);
    if (!isJsonObject(converted.schema)) return undefined;
    const definitions = this.context.responseDefs.collect(converted.targets, MAX_OUTPUT_DEFINITIONS);
    if (definitions === 'too_many') return undefined;
    const schema = definitions ? { ...converted.schema, $defs: definitions } : converted.schema;
    return JSON.stringify(schema).length <= MAX_OUTPUT_SCHEMA ? schema : undefined;
  }

  /** The complete plan of a request. */
  plan(): OperationPlan {
    const { parameters, body } = this.convert();
    const plan: OperationPlan = { method: this.method, path: this.path, parameters: parameters.plans };
    if (body) plan.body = body.plan;
    const types = this.successMedia().map(({ type }) => type);
    if (types.length > 0) plan.accept = toAccept(types);
    const security = this.context.security.readRequirements(this.operation);
    if (security) plan.security = security;
    return plan;
  }

  /** Base URL without trailing slash; undefined when the document names none and `base_url` is not set. */
  baseUrl(): string | undefined {
    const { document, options, findings } = this.context;
    return selectServer(document.root, this.operation, options, findings);
  }

  /** Warns that calls need `base_url`. */
  missingServer(): void {
    this.context.findings.warn('/servers', 'no absolute server URL is declared: set base_url when you register');
  }

  /** Converts parameters and body. Only the latest conversion is cached: schema and plan of a tool are read one after the other. */
  private convert(): ConvertedOperation {
    const { refs, request: converter, findings, options, latest } = this.context;
    if (latest.operation === this.operation && latest.converted) return latest.converted;
    const context = { refs, converter, findings, isSupplied: options.isSupplied };
    const parameters = convertParameters(this.operation, context);
    const body = convertBody(this.operation, context);
    latest.operation = this.operation;
    latest.converted = { parameters, body };
    return latest.converted;
  }

  /** Media types of 2xx answers (else `default`), in document order. */
  private successMedia(): { type: string; media: JsonObject; pointer: string }[] {
    const responses = objectAt(this.operation.node, 'responses');
    if (!responses) return [];
    const codes = Object.keys(responses).filter((code) => /^2(?:\d\d|XX)$/i.test(code));
    const found: { type: string; media: JsonObject; pointer: string }[] = [];
    for (const code of codes.length > 0 ? codes : Object.keys(responses).filter((key) => key === 'default')) {
      const followed = this.context.refs.follow(responses[code], `${this.operation.pointer}/responses/${code}`);
      if ('failed' in followed) continue;
      for (const [type, media] of Object.entries(objectAt(followed.node, 'content') ?? {})) {
        const pointer = `${followed.pointer}/content/${escapeToken(type)}`;
        if (isJsonObject(media as Json)) found.push({ type, media: media as JsonObject, pointer });
      }
    }
    return found;
  }
}

/** `Accept`: JSON first, at most five types, then anything. */
function toAccept(types: string[]): string[] {
  // oxlint-disable-next-line no-control-regex -- characters allowed in a header value
  const legal = [...new Set(types)].filter((type) => /^[^\s/]+\/[^\s/]/.test(type) && !/[^\u0020-\u007E]|,/.test(type));
  const sorted = legal.toSorted((a, b) => Number(isJsonType(b)) - Number(isJsonType(a))).slice(0, 5);
  return sorted.includes('*/*') ? sorted : [...sorted, '*/*;q=0.1'];
}
