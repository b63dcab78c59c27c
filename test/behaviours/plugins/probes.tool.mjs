/** Tools with runs that the probes can count and direct. State is per process. */
import { setTimeout as sleep } from 'node:timers/promises';

const runs = {};
const count = (name) => (runs[name] = (runs[name] ?? 0) + 1);
const schema = (properties, required = []) => ({ type: 'object', properties, required });
const KEY = { key: { type: 'string' } };

export default ({ defineTool, ok, fail, ToolError }) => [
  defineTool({
    name: 'probe_effect',
    description: 'Counts its runs and is not idempotent.',
    category: 'custom',
    inputSchema: schema(KEY),
    costMicroUsd: 1_000,
    handler: ({ key }) => ok({ runs: count(`effect ${key}`) }, 'counted'),
  }),
  defineTool({
    name: 'probe_repeatable',
    description: 'Counts its runs and is idempotent.',
    category: 'custom',
    inputSchema: schema(KEY),
    idempotent: true,
    handler: ({ key }) => ok({ runs: count(`repeatable ${key}`) }, 'counted'),
  }),
  defineTool({
    name: 'probe_context',
    description: 'Returns the context it received.',
    category: 'custom',
    inputSchema: schema(KEY),
    sessionAware: true,
    handler: (_args, { context }) => ok({ context }, 'context'),
  }),
  defineTool({
    name: 'probe_rejects',
    description: 'Rejects every request.',
    category: 'custom',
    inputSchema: schema(KEY),
    handler: () => {
      throw new ToolError('TOOL_ERROR', { message: 'a "quoted" \\ reason\nin two lines' });
    },
  }),
  defineTool({
    name: 'probe_fails',
    description: 'Returns a failure.',
    category: 'custom',
    inputSchema: schema(KEY),
    handler: () => fail('declined by the author'),
  }),
  defineTool({
    name: 'probe_undercharges',
    description: 'Reports a cost below its price.',
    category: 'custom',
    inputSchema: schema(KEY),
    costMicroUsd: 1_000,
    handler: () => ok({}, 'done', { metadata: { cost_usd: 0.0004 } }),
  }),
  defineTool({
    name: 'probe_sleeps',
    description: 'Sleeps until its signal ends it.',
    category: 'custom',
    inputSchema: schema({ ms: { type: 'integer' }, ...KEY }, ['ms']),
    timeoutSeconds: 1,
    rateLimit: 1_000,
    async handler({ ms, key }, { signal }) {
      count(`started ${key}`);
      try {
        await sleep(ms, undefined, { signal });
      } catch {
        count(`stopped ${key}`);
        throw new ToolError('TOOL_ERROR', { message: 'stopped' });
      }
      return ok({ slept: ms }, 'slept');
    },
  }),
  defineTool({
    name: 'probe_runs',
    description: 'Reads a counter of the other probes.',
    category: 'custom',
    inputSchema: schema({ name: { type: 'string' } }, ['name']),
    rateLimit: 1_000,
    handler: ({ name }) => ok({ runs: runs[name] ?? 0 }, 'read'),
  }),
  defineTool({
    name: 'probe_dangerous',
    description: 'Is dangerous.',
    category: 'custom',
    inputSchema: schema(KEY),
    dangerous: true,
    handler: () => ok({ ran: true }, 'ran'),
  }),
  defineTool({
    name: 'probe_limited',
    description: 'May be called three times a minute.',
    category: 'custom',
    inputSchema: schema(KEY),
    idempotent: true,
    rateLimit: 3,
    handler: ({ key }) => ok({ key }, 'ran'),
  }),
  defineTool({
    name: 'probe_default',
    description: 'Declares nothing beyond its name.',
    category: 'custom',
    inputSchema: schema(KEY),
    handler: () => ok({}, ''),
  }),
  defineTool({
    name: 'probe_typed',
    description: 'Returns its coerced arguments.',
    category: 'custom',
    inputSchema: schema(
      {
        text: { type: 'string' },
        whole: { type: 'integer', minimum: 1, maximum: 1_000_000 },
        small: { type: 'integer', format: 'int32' },
        number: { type: 'number' },
        flag: { type: 'boolean' },
        list: { type: 'array' },
        map: { type: 'object' },
        choice: { enum: ['a', 'b'] },
        other: { type: 'string', default: 'filled in' },
      },
      ['text'],
    ),
    idempotent: true,
    cacheTtlSeconds: 0,
    rateLimit: 1_000,
    handler: (args) => ok({ args }, 'typed'),
  }),
  defineTool({
    name: 'search_probe',
    description: 'Has the prefix of tools that search.',
    category: 'search',
    inputSchema: schema(KEY),
    handler: () => ok({}, ''),
  }),
  defineTool({
    name: 'create_probe',
    description: 'Has the prefix of tools that create.',
    category: 'custom',
    inputSchema: schema(KEY),
    handler: () => ok({}, ''),
  }),
];
