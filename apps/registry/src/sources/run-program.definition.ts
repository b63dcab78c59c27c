import { toMicroUsd } from '@toolfleet/contracts';
import type { ToolDefinition } from '@toolfleet/contracts/tool-definition';
import { PYTHON_SOURCE } from '../tool-key.js';

const DESCRIPTION = `Runs a Python program that calls tools, so that many calls need one turn. Inside:
- tools.<name>(key=value) calls a tool and returns its output; tools["name-with-dash"](…) works for any name.
- gather(tools.a(x=1), tools.b(y=2)) or gather(*[tools.a(x=i) for i in items]) calls tools at the same time; outputs in order.
- try: … except ToolError as e: e.code, e.hint, e.retryable. OutcomeUnknown (a ToolError): it is not known whether the call took effect.
- tools.search("task") finds tools; help(tools.name) prints arguments and description.
- inputs is the JSON value passed as inputs. The result is the variable result, else the last expression; print() goes to stdout.
Every call is authorized, validated, limited and charged like a call from outside. No network, files or processes.`;

/**
 * Definition of `run_program`. It is idempotent because its effects belong to its calls with their own keys: a
 * program that runs again makes none of them twice.
 */
export const RUN_PROGRAM: ToolDefinition = {
  name: 'run_program',
  version: '1.0.0',
  description: DESCRIPTION,
  category: 'code',
  tags: ['code', 'python', 'program', 'batch'],
  input_schema: {
    type: 'object',
    properties: {
      code: {
        type: 'string',
        description: 'Python 3 source; await works at its top level.',
        minLength: 1,
        maxLength: 262_144,
      },
      tools: {
        type: 'array',
        description: 'Names or patterns (crm_*) of the tools that it may call. Default: all that the caller may call.',
        items: { type: 'string', minLength: 1, maxLength: 128 },
        maxItems: 200,
      },
      inputs: { description: 'Any JSON value, as the variable inputs.' },
      max_calls: { type: 'integer', description: 'Most calls of tools.', minimum: 1, maximum: 500, default: 50 },
      max_cost_usd: {
        type: 'number',
        description: 'Highest cost of all calls together. No call starts that may exceed it.',
        minimum: 0,
      },
      plan: {
        type: 'boolean',
        description:
          'True: run only calls without effects, quote the others, and return their ordered list with its digest as plan. A quoted call returns its quote.',
      },
      plan_digest: {
        type: 'string',
        description: 'Digest of a plan of this program: run it with exactly the effects of that plan.',
        pattern: '^[0-9a-f]{64}$',
      },
      timeout_seconds: {
        type: 'number',
        description: 'Longest run in seconds, waiting for calls included. It may compute for 10 s of it.',
        minimum: 1,
        maximum: 300,
        default: 60,
      },
    },
    required: ['code'],
    additionalProperties: false,
  },
  binding: { kind: 'program' },
  source: PYTHON_SOURCE,
  timeout_seconds: 300,
  memory_limit_mb: 128,
  cost_per_use_micro_usd: toMicroUsd(0.001),
  dangerous: false,
  sandboxed: true,
  idempotent: true,
  cache_ttl_seconds: 0,
  retry_policy: { kind: 'none' },
  annotations: { readOnlyHint: false, destructiveHint: true, idempotentHint: false, openWorldHint: true },
  input_examples: [
    {
      code: 'gather(*[tools.calculator(expression=e) for e in inputs])',
      inputs: ['1+1', '2*3'],
      tools: ['calculator'],
    },
  ],
};
