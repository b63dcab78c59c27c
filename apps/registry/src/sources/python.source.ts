import { toMicroUsd, type Json, type JsonObject, type Milliseconds } from '@toolfleet/contracts';
import type { ToolDefinition } from '@toolfleet/contracts/tool-definition';
import { Rounds, type Clock } from '@toolfleet/resilience';
import type { Logger } from '@toolfleet/telemetry';
import type { DefinitionService } from '../definition-service.js';
import { PYTHON_SOURCE } from '../tool-key.js';
import { RUN_PROGRAM } from './run-program.definition.js';

const described = (description: string, schema: JsonObject): JsonObject => ({ description, ...schema });

const INPUT_SCHEMA: JsonObject = {
  type: 'object',
  properties: {
    code: described(
      'Python 3 source. The value is the variable `result` if the program sets it, else its last expression.',
      { type: 'string', minLength: 1, maxLength: 262_144 },
    ),
    strictness: described(
      'Leave it out: standard (10 s) has the whole library. strict (5 s) allows pure computation only.',
      { type: 'string', enum: ['lenient', 'standard', 'strict'] },
    ),
    stdin: described('Text that input() and sys.stdin read; also the variable `stdin`.', { type: 'string' }),
    args: described('Any JSON value, as the variable `args`.', {}),
    files: described(
      'Files in the working directory /data, also the variable `files`: name to text, or to {"base64": "..."}. At most 4 MiB.',
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
    files: described('Files that the program wrote to its working directory; their contents are in `content`.', {
      type: 'array',
      items: {
        type: 'object',
        properties: { name: { type: 'string' }, content_type: { type: 'string' }, bytes: { type: 'number' } },
      },
    }),
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
 * Definition of `execute_python`. It has no `timeout_seconds`, because the time limit follows from the strictness, and is never
 * retried, because a program that failed once fails again. `RegisteredOverrides` sets the rate limit.
 */
const EXECUTE_PYTHON: ToolDefinition = {
  name: 'execute_python',
  aliases: ['python_executor'],
  version: '2.0.0',
  description:
    'Runs a Python 3 program in a sandbox and returns its value, stdout, stderr and the files that it writes to its working directory. ' +
    'The whole standard library can be imported, and await works at the top level; there is no network, no threads or processes, and no packages such as ' +
    'numpy and pandas.',
  category: 'code',
  tags: ['code', 'python', 'computation'],
  input_schema: INPUT_SCHEMA,
  output_schema: OUTPUT_SCHEMA,
  binding: { kind: 'python' },
  source: PYTHON_SOURCE,
  cost_per_use_micro_usd: toMicroUsd(0.001),
  dangerous: false,
  sandboxed: true,
  session_aware: true,
  // A run has no effect outside its result. It is never cached: sessions, clocks and random numbers change its result.
  idempotent: true,
  cache_ttl_seconds: 0,
  retry_policy: { kind: 'none' },
  annotations: { readOnlyHint: true, destructiveHint: false, idempotentHint: true, openWorldHint: false },
  input_examples: [
    { code: 'import json\njson.dumps({"a": 1})' },
    { code: 'sum(args)', strictness: 'strict', args: [1, 2, 3] },
  ],
};

const CHECK_EVERY_MS: Milliseconds = 3_000;
/** An announcement stays valid until the check after the next one. */
const GRACE_MS: Milliseconds = 2 * CHECK_EVERY_MS;

/**
 * Registers `execute_python` and `run_program` on behalf of the sandbox (it speaks to Redis only), and repeats the announcement while workers of
 * its queue have slots there. Without a worker the tools stay listed as unavailable, and their calls wait in the queue.
 */
export class PythonSource {
  private readonly rounds: Rounds;

  constructor(
    /** How long workers still count as alive; 0 without any. */
    private readonly workersAliveMs: () => Promise<Milliseconds>,
    private readonly definitions: DefinitionService,
    private readonly host: { clock: Clock; logger: Logger },
  ) {
    this.rounds = new Rounds({
      clock: host.clock,
      everyMs: CHECK_EVERY_MS,
      work: () => this.check(),
      onFailure: (error) => host.logger.warn({ error }, 'the liveness of sandboxes cannot be checked'),
    });
  }

  async start(): Promise<void> {
    // Registered with a lease of 1 ms when there is no sandbox, so that the tool is listed from the start.
    await this.announce((await this.leaseMs()) || 1);
    this.rounds.start();
  }

  stop(): Promise<void> {
    return this.rounds.stop();
  }

  private async check(): Promise<void> {
    const leaseMs = await this.leaseMs();
    if (leaseMs > 0) await this.announce(leaseMs);
  }

  private async leaseMs(): Promise<Milliseconds> {
    const aliveMs = await this.workersAliveMs();
    return aliveMs > 0 ? aliveMs + GRACE_MS : 0;
  }

  private async announce(ttlMs: Milliseconds): Promise<void> {
    const { refused } = await this.definitions.register({
      source: PYTHON_SOURCE,
      definitions: [EXECUTE_PYTHON, RUN_PROGRAM],
      replace: true,
      ttl_ms: ttlMs,
    });
    for (const one of refused) this.host.logger.error({ ...one }, 'a tool of the sandbox was refused');
  }
}
