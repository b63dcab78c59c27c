import { jsonObject, ToolError, type Json, type JsonObject } from '@toolfleet/contracts';
import {
  closed,
  defaulted,
  flag,
  integer,
  maybe,
  object,
  text,
  textChoice,
  type Schema,
} from '@toolfleet/contracts/json-schema';
import { toExactJson } from '@toolfleet/contracts/json-text';
import { boundsOf, type BoundedJob } from '../bounded/bounded-work.js';
import { defineTool, ok, required, type ToolOutcome } from '../builtin-tool.js';
import { parseJson, sortKeys } from './json-document.js';

/** Maximum length of a document in UTF-16 units. */
const MAX_DOCUMENT = 2_000_000;
/** Time limit of a query, patch or diff. */
const JOB_MS = 2_000;
const PATCH: Schema<Json[] | JsonObject> = {
  type: ['array', 'object'],
  description: 'For patch: array of RFC 6902 operations. For merge: RFC 7386 object',
  items: { type: 'object' },
};

/** `json_process`: parses, queries, changes and validates JSON text. */
export const jsonProcess = defineTool({
  name: 'json_process',
  description:
    'Work on a JSON text. Operations: parse (check and return the value), format (pretty-print), minify, ' +
    'query (JSONPath such as "$.items[?@.price < 10].name", or JMESPath such as "items[?price < `10`].name"), ' +
    'patch (apply a JSON Patch array), merge (apply a merge patch object), diff (JSON Patch that turns json_string into other), ' +
    'validate (against a JSON Schema), describe (types, keys and sizes). Errors name line and column.',
  category: 'data',
  tags: ['json', 'compute'],
  inputSchema: closed({
    json_string: text('The JSON text', { maxLength: MAX_DOCUMENT }),
    operation: textChoice(
      ['parse', 'format', 'minify', 'query', 'patch', 'merge', 'diff', 'validate', 'describe'],
      'What to do',
    ),
    query: maybe(text('For query: the JSONPath or JMESPath expression', { maxLength: 2_000 })),
    language: maybe(
      textChoice(
        ['jsonpath', 'jmespath'],
        'For query: its language; without it, an expression that starts with $ is JSONPath',
      ),
    ),
    patch: maybe(PATCH),
    other: maybe(text('For diff: the JSON text to compare with', { maxLength: MAX_DOCUMENT })),
    schema: maybe(object('For validate: the JSON Schema (2020-12)')),
    indent: defaulted(integer('For format: spaces per level', { minimum: 0, maximum: 8 }), 2),
    sort_keys: defaulted(flag('For format and minify: order keys by name'), false),
  }),
  inputExamples: [
    { json_string: '{"items":[{"n":1},{"n":2}]}', operation: 'query', query: '$.items[?@.n > 1]' },
    { json_string: '{"a":1}', operation: 'patch', patch: [{ op: 'replace', path: '/a', value: 2 }] },
  ],
  rateLimit: 600,
  annotations: { readOnlyHint: true, destructiveHint: false, openWorldHint: false },
  idempotent: true,
  timeoutSeconds: 10,
  needs: ['bounded'],
  async handler(args, run): Promise<ToolOutcome> {
    const value = parseJson(args.json_string, 'json_string');
    const withBounds = <Job extends BoundedJob>(job: Job) =>
      run.bounded.run(job, { timeoutMs: JOB_MS, ...boundsOf(run) });
    const document = args.json_string;
    switch (args.operation) {
      case 'parse':
        return show(value);
      case 'format':
        return asText(toExactJson(args.sort_keys ? sortKeys(value) : value, args.indent));
      case 'minify':
        return asText(toExactJson(args.sort_keys ? sortKeys(value) : value));
      case 'query': {
        const query = required(args.query, 'query', 'query');
        const language = args.language ?? (query.trimStart().startsWith('$') ? 'jsonpath' : 'jmespath');
        return show(await withBounds({ kind: language, document, query }), { language });
      }
      case 'patch': {
        const patch = required(args.patch, 'patch', 'patch');
        if (!Array.isArray(patch))
          throw new ToolError('TOOL_ERROR', { message: 'patch needs an array of operations; use merge for an object' });
        return show(await withBounds({ kind: 'patch', document, patch: toExactJson(checkedOperations(patch)) }));
      }
      case 'merge':
        return show(
          await withBounds({ kind: 'merge', document, patch: toExactJson(required(args.patch, 'patch', 'merge')) }),
        );
      case 'diff': {
        const other = required(args.other, 'other', 'diff');
        parseJson(other, 'other');
        const operations = await withBounds({ kind: 'diff', document, other });
        return ok(
          { equal: operations.length === 0, patch: operations },
          operations.length === 0 ? 'Equal' : `${operations.length} difference(s): ${JSON.stringify(operations)}`,
        );
      }
      case 'validate': {
        const schema = toExactJson(required(args.schema, 'schema', 'validate'));
        const violations = await withBounds({ kind: 'validate', document, schema });
        const shown = violations.length === 0 ? 'Valid' : violations.map((one) => String(one.message)).join('\n');
        return ok({ valid: violations.length === 0, faults: violations }, shown);
      }
      case 'describe':
        return show(describe(value, 0));
    }
  },
});

function show(value: Json, metadata?: JsonObject): ToolOutcome {
  return ok({ result: value }, JSON.stringify(value), { metadata });
}

function asText(result: string): ToolOutcome {
  return ok({ result }, result);
}

/** Checks the JSON Pointers of all operations before any is applied. */
function checkedOperations(patch: Json[]): Json[] {
  patch.forEach((operation, index) => {
    const { path, from } = (operation ?? {}) as { path?: Json; from?: Json };
    for (const pointer of from === undefined ? [path] : [path, from]) {
      if (typeof pointer !== 'string' || !/^(?:\/.*)?$/s.test(pointer)) {
        throw new ToolError('TOOL_ERROR', { message: `Operation ${index + 1} has no valid JSON Pointer` });
      }
      if (/(?:^|\/)(?:__proto__|constructor|prototype)(?:\/|$)/.test(pointer)) {
        throw new ToolError('TOOL_ERROR', { message: `Operation ${index + 1}: the pointer ${pointer} is not allowed` });
      }
    }
  });
  return patch;
}

/** The shape of a value, in enough detail for a model to write a query. */
function describe(value: Json, depth: number): JsonObject {
  if (Array.isArray(value)) {
    const first = value.length > 0 && depth < 4 ? describe(value[0] as Json, depth + 1) : undefined;
    return jsonObject({ type: 'array', length: value.length, first });
  }
  if (typeof value === 'object' && value !== null) {
    const keys = Object.keys(value);
    const shown = depth < 4 ? keys.slice(0, 50) : [];
    const fields = Object.create(null) as JsonObject;
    for (const key of shown) fields[key] = describe(value[key] as Json, depth + 1);
    return jsonObject({ type: 'object', keys: keys.length, fields: shown.length > 0 ? fields : undefined });
  }
  if (typeof value === 'string') return { type: 'string', length: value.length };
  return { type: value === null ? 'null' : typeof value === 'bigint' ? 'number' : typeof value };
}
