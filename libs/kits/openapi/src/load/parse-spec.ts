import { CORE_SCHEMA, loadAll, Type, YAMLException } from 'js-yaml';
import { isJsonObject, type JsonObject } from '@toolfleet/base';
import { Findings, specError } from '../findings.js';
import { fromSwagger } from './read-swagger.js';

/** Maximum size of a document read by default: the public descriptions of GitHub (13 MB) and Microsoft Graph (20 MB) fit. */
export const DEFAULT_MAX_SPEC_BYTES = 32 * 1024 * 1024;

/** Limits of a document. */
export interface SpecLimits {
  /** Bytes of the text (UTF-8). Default 32 MiB. */
  maxBytes?: number;
  /** Values after expansion of YAML aliases. Default: the length of the text, at least 2,000,000. */
  maxNodes?: number;
}

/** A readable OpenAPI document. */
export interface SpecDocument {
  root: JsonObject;
  /** The `openapi` field. */
  version: string;
  /** Rules its schemas follow: 3.0 has its own dialect, 3.1 and later are JSON Schema 2020-12. */
  dialect: '3.0' | '3.1';
  findings: Findings;
  /** False when the text provably has no reference to another document, so that no search is needed. */
  mayReachOut: boolean;
}

/**
 * Reads JSON or YAML as an OpenAPI 3.x document, or as a Swagger 2.0 document that is converted. There is no schema validation: strict validators refuse documents that
 * are usable.
 * @throws CodedError SPEC_INVALID when it is neither, exceeds a limit, or cannot be parsed (with line and column)
 */
export function parseSpec(text: string, limits: SpecLimits = {}): SpecDocument {
  const maxBytes = limits.maxBytes ?? DEFAULT_MAX_SPEC_BYTES;
  if (text.length > maxBytes || Buffer.byteLength(text) > maxBytes) {
    throw specError('SPEC_TOO_LARGE', `the document has more than ${maxBytes} bytes; raise OPENAPI_MAX_SPEC_SIZE`);
  }
  const findings = new Findings();
  const maxNodes = limits.maxNodes ?? Math.max(2_000_000, text.length);
  const parsed = parseText(text.charCodeAt(0) === 0xfeff ? text.slice(1) : text, maxNodes, findings);
  const root = wellFormed(text, parsed, findings);
  if (!isJsonObject(root)) {
    throw specError('SPEC_PARSE_ERROR', 'not an OpenAPI document: the top level has to be an object');
  }
  const readable = /^2(\.0)?$/.test(String(root.swagger)) ? fromSwagger(root, findings) : root;
  return { root: readable, ...readVersion(readable, findings), findings, mayReachOut: mayReachOut(text) };
}

/** Whether a `$ref` may point outside: it does not start with `#`, or an escape could spell one. False positives are possible. */
function mayReachOut(text: string): boolean {
  return /\$ref(?:['"]?\s*:(?!\s*['"]?#)|\s*\n)/.test(text) || /\\(?:u00|x)(?:2[34]|[67])/i.test(text);
}

function parseText(text: string, maxNodes: number, findings: Findings): unknown {
  const parsed = /^\s*[{[]/.test(text) ? parseJson(text, findings) : parseYaml(text, findings);
  assertBounded(parsed, maxNodes);
  return parsed;
}

function parseJson(text: string, findings: Findings): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    return parseBrokenJson(text, error, findings);
  }
}

/** Parses text that looks like JSON as YAML in flow style; reports the position in the JSON when it is neither. */
function parseBrokenJson(text: string, jsonError: unknown, findings: Findings): unknown {
  try {
    return parseYaml(text, findings);
  } catch (error) {
    const message = jsonError instanceof Error ? jsonError.message : '';
    const at = /position (\d+)/.exec(message)?.[1];
    if (at === undefined) throw error;
    const before = text.slice(0, Number(at)).split('\n');
    const place = { line: before.length, column: (before.at(-1)?.length ?? 0) + 1 };
    const what = message.replace(/ in JSON at position.*$/s, '').slice(0, 200);
    throw specError('SPEC_PARSE_ERROR', `invalid JSON at line ${place.line}, column ${place.column}: ${what}`, place);
  }
}

/** Replaces lone surrogates (not expressible in URIs and UTF-8) with U+FFFD. */
function wellFormed(text: string, root: unknown, findings: Findings): unknown {
  if ((text.isWellFormed() && !/\\u[dD][89a-fA-F]/.test(text)) || isWellFormed(root)) return root;
  findings.warn('', 'halves of surrogate pairs are replaced by U+FFFD');
  // JSON.stringify writes lone surrogates, and nothing else, as escapes of this range.
  const json = JSON.stringify(root);
  return JSON.parse(json.replace(/\\\\|\\ud[89a-f][0-9a-f]{2}/g, (escape) => (escape === '\\\\' ? escape : '\ufffd')));
}

/** Whether all texts and names of members are well-formed; most documents that escape surrogates escape pairs of them. */
function isWellFormed(value: unknown): boolean {
  if (typeof value === 'string') return value.isWellFormed();
  if (typeof value !== 'object' || value === null) return true;
  if (Array.isArray(value)) return value.every(isWellFormed);
  for (const key in value) {
    if (!key.isWellFormed() || !isWellFormed((value as Record<string, unknown>)[key])) return false;
  }
  return true;
}

/** Limits the values that a walk would visit: YAML aliases can make a small document expand without end. */
function assertBounded(root: unknown, maxNodes: number): void {
  let nodes = 0;
  const visit = (value: unknown, depth: number): void => {
    nodes += 1;
    if (nodes > maxNodes) {
      throw specError('SPEC_TOO_COMPLEX', `more than ${maxNodes} values after expansion of YAML aliases`);
    }
    if (typeof value !== 'object' || value === null) return;
    if (depth > MAX_DEPTH) {
      throw specError('SPEC_TOO_COMPLEX', `nested deeper than ${MAX_DEPTH} levels, or an alias that contains itself`);
    }
    if (Array.isArray(value)) for (const item of value) visit(item, depth + 1);
    else for (const key in value) visit((value as Record<string, unknown>)[key], depth + 1);
  };
  visit(root, 0);
}

function readVersion(root: JsonObject, findings: Findings): Pick<SpecDocument, 'version' | 'dialect'> {
  const given = Object.hasOwn(root, 'openapi') ? root.openapi : undefined;
  // Unquoted in YAML: `openapi: 3.1`.
  const version = typeof given === 'number' ? given.toFixed(1) : given;
  const minor = typeof version === 'string' ? /^3\.(\d+)/.exec(version)?.[1] : undefined;
  if (typeof version !== 'string' || minor === undefined) {
    const found = JSON.stringify(given ?? root.swagger)?.slice(0, 40);
    const message =
      found === undefined ? 'the field "openapi" is missing' : `version 3 (or Swagger 2.0) is read, not ${found}`;
    throw specError('SPEC_VERSION_UNSUPPORTED', `not an OpenAPI document: ${message}`, {
      pointer: given === undefined ? '' : '/openapi',
    });
  }
  if (Number(minor) > 1) findings.warn('/openapi', `OpenAPI ${version.slice(0, 40)} is read as 3.1`);
  return { version, dialect: minor === '0' ? '3.0' : '3.1' };
}

/**
 * YAML 1.2 core schema plus merge keys. No timestamps: `2024-01-01` in an example stays the string it is in JSON. Tags
 * of applications (`!Ref`) and of YAML 1.1 (`!!binary`, `!!timestamp`) are dropped and the plain value is kept.
 */
const foreignTag = (tag: string, kind: 'scalar' | 'sequence' | 'mapping') =>
  new Type(tag, { kind, multi: true, resolve: () => true, construct: (data: unknown) => data ?? null });
const merge = new Type('tag:yaml.org,2002:merge', {
  kind: 'scalar',
  resolve: (data: unknown) => data === '<<' || data === null,
});
const KINDS = ['scalar', 'sequence', 'mapping'] as const;
const SPEC_SCHEMA = CORE_SCHEMA.extend({
  implicit: [merge],
  explicit: KINDS.flatMap((kind) => [foreignTag('!', kind), foreignTag('tag:yaml.org,2002:', kind)]),
});

/** Maximum nesting, because later steps recurse. The deepest of 4,500 public documents has less than 60. */
const MAX_DEPTH = 200;

/**
 * Parses YAML (the first document of a stream). A duplicated key keeps its last value, as JSON.parse does, with a warning.
 * Throws SPEC_INVALID with line and column, counted from 1.
 */
function parseYaml(text: string, findings: Findings): unknown {
  try {
    return firstDocument(loadAll(text, null, { schema: SPEC_SCHEMA, ...LIMITS }), findings);
  } catch (error) {
    if (!(error instanceof YAMLException)) throw tooDeep(error);
    if (error.reason === 'duplicated mapping key') {
      findings.warn('', `duplicated key at line ${toPlace(error).line}: the last value of such keys is used`);
      return parseSloppyYaml(text, findings);
    }
    throw yamlError(error);
  }
}

/** Limits that js-yaml knows and its type package does not. */
const LIMITS = { maxDepth: MAX_DEPTH, maxTotalMergeKeys: 100_000 } as object;

function parseSloppyYaml(text: string, findings: Findings): unknown {
  try {
    return firstDocument(loadAll(text, null, { schema: SPEC_SCHEMA, json: true, ...LIMITS }), findings);
  } catch (error) {
    throw error instanceof YAMLException ? yamlError(error) : tooDeep(error);
  }
}

function firstDocument(documents: unknown[], findings: Findings): unknown {
  if (documents.length > 1) findings.warn('', `only the first of ${documents.length} YAML documents is read`);
  return documents[0];
}

function toPlace(error: YAMLException): { line: number; column: number } {
  return { line: (error.mark?.line ?? 0) + 1, column: (error.mark?.column ?? 0) + 1 };
}

function yamlError(error: YAMLException): Error {
  const place = toPlace(error);
  const reason = /maxDepth|maxTotalMergeKeys/.test(error.reason) ? 'SPEC_TOO_COMPLEX' : 'SPEC_PARSE_ERROR';
  return specError(reason, `invalid YAML at line ${place.line}, column ${place.column}: ${error.reason}`, place);
}

function tooDeep(error: unknown): Error {
  if (error instanceof RangeError) return specError('SPEC_TOO_COMPLEX', 'the document is nested too deeply');
  return specError(
    'SPEC_PARSE_ERROR',
    `not readable as YAML: ${error instanceof Error ? error.message : String(error)}`,
  );
}
