import { CORE_SCHEMA, loadAll, Type, YAMLException } from 'js-yaml';
import { specError, type Findings } from '../findings.js';

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

/** Deeper documents are refused: every later step may recurse. The deepest of 4,500 public documents has less than 60. */
export const MAX_DEPTH = 200;

/**
 * Parses YAML (the first document of a stream). A duplicated key keeps its last value, as JSON.parse does, with a warning.
 * Throws SPEC_INVALID with line and column, counted from 1.
 */
export function parseYaml(text: string, findings: Findings): unknown {
  try {
    return firstOf(loadAll(text, null, { schema: SPEC_SCHEMA, ...LIMITS }), findings);
  } catch (error) {
    if (!(error instanceof YAMLException)) throw tooDeep(error);
    if (error.reason === 'duplicated mapping key') {
      findings.warn('', `duplicated key at line ${placeOf(error).line}: the last value of such keys is used`);
      return parseSloppyYaml(text, findings);
    }
    throw yamlError(error);
  }
}

/** Limits that js-yaml knows and its type package does not. */
const LIMITS = { maxDepth: MAX_DEPTH, maxTotalMergeKeys: 100_000 } as object;

function parseSloppyYaml(text: string, findings: Findings): unknown {
  try {
    return firstOf(loadAll(text, null, { schema: SPEC_SCHEMA, json: true, ...LIMITS }), findings);
  } catch (error) {
    throw error instanceof YAMLException ? yamlError(error) : tooDeep(error);
  }
}

function firstOf(documents: unknown[], findings: Findings): unknown {
  if (documents.length > 1) findings.warn('', `only the first of ${documents.length} YAML documents is read`);
  return documents[0];
}

function placeOf(error: YAMLException): { line: number; column: number } {
  return { line: (error.mark?.line ?? 0) + 1, column: (error.mark?.column ?? 0) + 1 };
}

function yamlError(error: YAMLException): Error {
  const place = placeOf(error);
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
