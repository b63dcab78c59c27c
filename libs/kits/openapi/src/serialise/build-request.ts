import { CodedError, isJsonObject, type Json, type JsonObject } from '@toolfleet/base';
import { toExactJson } from '@toolfleet/base/json-text';
import { withoutTrailingSlashes } from '../convert/select-server.js';
import type { OperationPlan, ParameterPlan } from '../plan.js';
import { expandPath } from './expand-path.js';
import { encodeUnreserved, headerValue, queryPairs, toText } from './serialise-parameter.js';
import { formText, serialiseBody } from './serialise-body.js';

/** One HTTP request, complete but for authentication. */
export interface BuiltRequest {
  method: string;
  /** `scheme://host[:port]` */
  origin: string;
  /** Path and query exactly as they go on the request line: never to be passed through `new URL`: it rewrites both. */
  target: string;
  /** Names as declared, values ready for the wire. */
  headers: [string, string][];
  body?: Uint8Array | string;
}

/** Headers that belong to the connection: a document may declare them, only the client may set them. */
const CONNECTION_HEADERS: ReadonlySet<string> = new Set([
  'host',
  'content-length',
  'transfer-encoding',
  'connection',
  'keep-alive',
  'upgrade',
  'te',
  'trailer',
  'expect',
  'proxy-authorization',
  'proxy-connection',
]);

/** True for header parameters that are kept in the schema and not sent. */
export function isConnectionHeader(name: string): boolean {
  return CONNECTION_HEADERS.has(name.toLowerCase());
}

/**
 * Builds the request of one call. Pure: no I/O, no credentials.
 * @throws CodedError ARGUMENTS_INVALID with the argument and `details.reason` PATH_PARAM_UNSAFE, HEADER_VALUE_INVALID or
 *   ARGUMENT_MISSING; SPEC_INVALID without a usable server URL
 */
export function buildRequest(plan: OperationPlan, baseUrl: string, args: JsonObject): BuiltRequest {
  const base = httpUrl(baseUrl);
  const values = new Map<ParameterPlan, Json>();
  for (const parameter of plan.parameters) {
    const value = readArgument(parameter, args);
    if (value !== undefined) values.set(parameter, value);
  }
  const { path, query } = expandPath(plan, values);
  const headers = buildHeaders(plan, values);
  const built: BuiltRequest = {
    method: plan.method,
    origin: base.origin,
    target: withoutTrailingSlashes(base.pathname) + path + questionMark([...query, ...buildQuery(values)]),
    headers,
  };
  const body = Object.hasOwn(args, 'body') ? args.body : undefined;
  if (plan.body && body !== undefined) {
    const { contentType, bytes } = serialiseBody(plan.body, body);
    headers.push(['Content-Type', contentType]);
    built.body = bytes;
  } else if (plan.body?.required) {
    throw missing('body', 'The request body is required');
  }
  return built;
}

function httpUrl(text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url && /^https?:$/.test(url.protocol)) return url;
  throw new CodedError('SPEC_INVALID', {
    message: 'SERVER_URL_MISSING: the server of this operation is not an http or https URL',
    details: { reason: 'SERVER_URL_MISSING' },
  });
}

function readArgument(parameter: ParameterPlan, args: JsonObject): Json | undefined {
  const value = Object.hasOwn(args, parameter.argument) ? args[parameter.argument] : undefined;
  const given = value === null && !parameter.nullable ? undefined : value;
  if (given === undefined && parameter.required) {
    throw missing(parameter.argument, `Required parameter '${parameter.argument}' is missing`);
  }
  return given;
}

function missing(argument: string, message: string): CodedError {
  return new CodedError('ARGUMENTS_INVALID', { message, details: { argument, reason: 'ARGUMENT_MISSING' } });
}

function buildQuery(values: ReadonlyMap<ParameterPlan, Json>): string[] {
  const query: string[] = [];
  for (const [parameter, value] of values) {
    if (parameter.in === 'querystring') query.push(wholeQuery(parameter, value));
    else if (parameter.in === 'query') {
      const shown = parameter.content === undefined ? value : contentText(parameter.content, value);
      for (const [name, text] of queryPairs(parameter.name, shown, parameter)) query.push(`${name}=${text}`);
    }
  }
  return query.filter((part) => part !== '');
}

/** 3.2 `in: querystring`: the parameter is the query; an object is a form, all else is encoded as a whole. */
function wholeQuery({ content = '' }: ParameterPlan, value: Json): string {
  if (!/json/i.test(content) && isJsonObject(value)) return formText({}, value);
  return encodeUnreserved(contentText(content, value));
}

function questionMark(query: readonly string[]): string {
  return query.length > 0 ? `?${query.join('&')}` : '';
}

/** `content` parameters: JSON for JSON types, the text itself otherwise. */
function contentText(mediaType: string, value: Json): string {
  return /[/+]json\b/i.test(mediaType) || typeof value === 'object' ? toExactJson(value) : toText(value);
}

function buildHeaders(plan: OperationPlan, values: ReadonlyMap<ParameterPlan, Json>): [string, string][] {
  const headers: [string, string][] = [];
  const cookies: string[] = [];
  for (const [parameter, value] of values) {
    if (parameter.in === 'header' && !isConnectionHeader(parameter.name)) {
      const text =
        parameter.content === undefined ? headerValue(value, parameter.explode) : contentText(parameter.content, value);
      if (text !== undefined) headers.push([headerName(parameter), headerText(parameter.argument, text)]);
    } else if (parameter.in === 'cookie') {
      const shown = parameter.content === undefined ? value : contentText(parameter.content, value);
      cookies.push(...queryPairs(parameter.name, shown, parameter).map(([name, text]) => `${name}=${text}`));
    }
  }
  if (cookies.length > 0) headers.push(['Cookie', cookies.join('; ')]);
  if (plan.accept && !headers.some(([name]) => name.toLowerCase() === 'accept')) {
    headers.push(['Accept', plan.accept.join(', ')]);
  }
  return headers;
}

function headerName(parameter: ParameterPlan): string {
  if (/^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/.test(parameter.name)) return parameter.name;
  throw new CodedError('ARGUMENTS_INVALID', {
    message: `'${parameter.argument}' cannot be sent: "${parameter.name}" is not a legal header name`,
    details: { argument: parameter.argument, reason: 'HEADER_VALUE_INVALID' },
  });
}

/** Control characters would end the header; characters beyond Latin-1 go as their UTF-8 bytes. */
export function headerText(argument: string, text: string): string {
  // oxlint-disable-next-line no-control-regex -- these characters are refused
  if (/[\u0000-\u0008\u000A-\u001F\u007F]/.test(text)) {
    throw new CodedError('ARGUMENTS_INVALID', {
      message: `'${argument}' has a control character, which a header cannot carry`,
      details: { argument, reason: 'HEADER_VALUE_INVALID' },
    });
  }
  // oxlint-disable-next-line no-control-regex -- the range is "not ASCII"
  return /[^\u0000-\u007F]/.test(text) ? Buffer.from(text.toWellFormed(), 'utf8').toString('latin1') : text;
}
