import { toMicroUsd, type Json, type JsonObject } from '@toolfleet/contracts';
import type { ToolDefinition, ToolSource } from '@toolfleet/contracts/tool-definition';

/** Apart from the source of builtin-executor, whose announcements replace all of its own. */
export const PYTHON_SOURCE: ToolSource = { kind: 'builtin', name: 'python-sandbox' };

/** What an operator may set about `execute_python`. */
export interface PythonToolOptions {
  /** `PYTHON_EXECUTOR_RATE_LIMIT`: calls per minute and tenant; one bucket for the name and its alias. Default 60. */
  rateLimit?: number;
  /** A limit below `WASI_MEMORY_LIMIT_MB` of the sandbox; unset takes that one. */
  memoryLimitMb?: number;
}

const DEFAULT_RATE_LIMIT = 60;
const COST_USD = 0.001;

const described = (description: string, schema: JsonObject): JsonObject => ({ description, ...schema });

const INPUT_SCHEMA: JsonObject = {
  type: 'object',
  properties: {
    code: described(
      'Python 3 source. The value is the variable `result` if the program sets it, else its last expression.',
      { type: 'string', minLength: 1, maxLength: 262_144 },
    ),
    strictness: described(
      'What the program may import and name: lenient (30 s, all modules), standard (10 s, data modules), strict (5 s, pure computation).',
      { type: 'string', enum: ['lenient', 'standard', 'strict'] },
    ),
    stdin: described('Text the program reads from sys.stdin; also the variable `stdin`.', { type: 'string' }),
    args: described('Any JSON value, as the variable `args`.', {}),
    files: described(
      'Read-only data files under /data, also the variable `files`: name to text, or to {"base64": "..."}. At most 4 MiB.',
      {
        type: 'object',
        additionalProperties: {
          anyOf: [
            { type: 'string' },
            {
              type: 'object',
              properties: { base64: { type: 'string' } },
              required: ['base64'],
              additionalProperties: false,
            },
          ],
        },
      },
    ),
    timeout_seconds: described('Longest run in seconds; overrides the time of the strictness.', {
      type: 'number',
      minimum: 1,
      maximum: 60,
    }),
    session_id: described('Keeps JSON-able variables between the runs of one session for an hour.', {
      type: 'string',
      minLength: 1,
      maxLength: 256,
    }),
  },
  required: ['code'],
};

const OUTPUT_SCHEMA: JsonObject = {
  type: ['object', 'null'],
  properties: {
    value: described('The result as JSON; null when there is none.', {}),
    value_repr: described('repr() of a result that is not JSON.', { type: 'string' }),
    stdout: { type: 'string' },
    stderr: { type: 'string' },
    truncated: { type: 'object', properties: { stdout: { type: 'boolean' }, stderr: { type: 'boolean' } } },
    usage: {
      type: 'object',
      properties: Object.fromEntries(
        ['cpu_ms', 'wall_ms', 'queue_ms', 'peak_memory_mb'].map((name): [string, Json] => [name, { type: 'number' }]),
      ),
    },
  },
};

/**
 * The definition of `execute_python`. The registry declares it itself, since the sandbox speaks to Redis only. No
 * `timeout_seconds`: the time follows from the strictness. Never repeated by the fleet: a program that failed
 * once fails again.
 */
export function pythonDefinition(options: PythonToolOptions = {}): ToolDefinition {
  return {
    name: 'execute_python',
    aliases: ['python_executor'],
    version: '2.0.0',
    description:
      'Runs a Python program in a sandbox without network, writable files or processes and returns its value, ' +
      'stdout and stderr. Only the standard library is there; numpy and pandas are not.',
    category: 'code',
    tags: ['code', 'python', 'computation'],
    input_schema: INPUT_SCHEMA,
    output_schema: OUTPUT_SCHEMA,
    binding: { kind: 'python' },
    source: PYTHON_SOURCE,
    rate_limit: options.rateLimit ?? DEFAULT_RATE_LIMIT,
    cost_per_use_micro_usd: toMicroUsd(COST_USD),
    ...(options.memoryLimitMb === undefined ? {} : { memory_limit_mb: options.memoryLimitMb }),
    dangerous: false,
    // The sandbox holds at every level; lenient only lifts the lists that guide a model.
    dangerous_when: [{ argument: 'strictness', values: ['lenient'] }],
    sandboxed: true,
    session_aware: true,
    // A run has no effect outside its answer. Never cached all the same: sessions, clocks and random numbers go on.
    idempotent: true,
    cache_ttl_seconds: 0,
    retry_policy: { kind: 'none' },
    annotations: { readOnlyHint: true, idempotentHint: true, openWorldHint: false },
    input_examples: [
      { code: 'import json\njson.dumps({"a": 1})' },
      { code: 'sum(args)', strictness: 'strict', args: [1, 2, 3] },
    ],
  };
}
