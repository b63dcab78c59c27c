import { describe, expect, it } from 'vitest';
import type { JsonObject } from '@toolfleet/contracts';
import type { ToolDefinition, ToolSource } from '@toolfleet/contracts/tool-definition';
import { checkDefinition } from './check-definition.js';
import { toRevision } from './tool-key.js';

const SOURCE: ToolSource = { kind: 'builtin', name: 'builtin.compute' };
const COMPILE = true;
const definition = (more: object = {}): JsonObject =>
  ({
    name: 'calculator',
    version: '1.2.3',
    description: 'Calculates',
    category: 'data',
    input_schema: { type: 'object', properties: { expression: { type: 'string' } }, required: ['expression'] },
    binding: { kind: 'builtin', toolset: 'compute', handler: 'calculator' },
    ...more,
  }) as JsonObject;

describe('checkDefinition', () => {
  it('gives a definition back with its source', () => {
    expect(checkDefinition(definition({ tags: undefined }), SOURCE, COMPILE)).toEqual({
      ...definition(),
      source: SOURCE,
    });
  });

  const wrong: [string, object, string | RegExp][] = [
    ['no name', { name: undefined }, 'name'],
    ['a name with a dot', { name: 'a.b' }, 'must match'],
    ['a name of 65 characters', { name: 'a'.repeat(65) }, 'must match'],
    ['a name that is a path', { name: '../x' }, 'must match'],
    ['an incomplete version', { version: '1' }, 'semantic version'],
    ['a version with a leading zero', { version: '01.0.0' }, 'semantic version'],
    ['no description', { description: '' }, 'description'],
    ['a schema of another type', { input_schema: { type: 'array' } }, 'must be "object"'],
    [
      'a schema that does not compile',
      { input_schema: { type: 'object', properties: { a: { type: 'text' } } } },
      'Schema refused',
    ],
    [
      'a remote reference',
      { input_schema: { type: 'object', properties: { a: { $ref: 'https://x/y' } } } },
      'only #/$defs/',
    ],
    [
      'a reference outside $defs',
      { input_schema: { type: 'object', properties: { a: { $ref: '#/properties/b' } } } },
      '#/$defs/',
    ],
    ['a timeout of 0', { timeout_seconds: 0 }, 'timeout_seconds'],
    ['a timeout of two hours', { timeout_seconds: 7_200 }, 'timeout_seconds'],
    ['a negative rate limit', { rate_limit: -1 }, 'rate_limit'],
    ['a broken price', { cost_per_use_micro_usd: 0.5 }, 'cost_per_use_micro_usd'],
    ['a cap below the price', { cost_per_use_micro_usd: 10, cost_cap_micro_usd: 5 }, 'below'],
    [
      'eleven attempts',
      { retry_policy: { kind: 'custom', max_attempts: 11, base_delay_ms: 1, multiplier: 1 } },
      'retry_policy',
    ],
    ['an unknown retry policy', { retry_policy: { kind: 'always' } }, 'retry_policy'],
    ['an unknown context key', { context_keys: ['trace_id'] }, 'context_keys'],
    ['an unknown toolset', { binding: { kind: 'builtin', toolset: 'root', handler: 'x' } }, 'binding'],
    [
      'a binding of another kind',
      { binding: { kind: 'mcp', server: 's', transport: 'stdio', url: '', remoteName: 'x' } },
      'cannot announce',
    ],
    ['a danger rule on no argument', { dangerous_when: [{ argument: 'mode', values: ['x'] }] }, 'mode'],
    ['a tenant of its own choice', { tenant: 'acme' }, 'tenant acme'],
  ];
  it.each(wrong)('refuses %s', (_, change, message) => {
    expect(() => checkDefinition(definition(change), SOURCE, COMPILE)).toThrow(message);
    expect(() => checkDefinition(definition(change), SOURCE, COMPILE)).toThrow(
      expect.objectContaining({ code: 'SPEC_INVALID' }) as Error,
    );
  });

  it.each([true, false])('refuses schemas of exponential cost, compiled or not: %j', (compile) => {
    const $defs: JsonObject = { n20: { type: 'string' } };
    for (let level = 0; level < 20; level += 1)
      $defs[`n${level}`] = { anyOf: [{ $ref: `#/$defs/n${level + 1}` }, { $ref: `#/$defs/n${level + 1}` }] };
    const schema = { type: 'object', properties: { a: { $ref: '#/$defs/n0' } }, $defs };
    for (const change of [{ input_schema: schema }, { output_schema: schema }]) {
      expect(() => checkDefinition(definition(change), SOURCE, compile)).toThrow(
        /more than 10000 schemas to one value/,
      );
    }
  });

  it.each(['^(a+)\\1$', 'a(?=b)', '^(?:a?b?){0,1000}x4$'])('refuses the pattern %s, naming it', (pattern) => {
    const schema = { type: 'object', properties: { a: { type: 'string', pattern } } };
    expect(() => checkDefinition(definition({ input_schema: schema }), SOURCE, COMPILE)).toThrow(pattern);
  });

  it('takes references into $defs, and names a property "$ref" is free to have', () => {
    const schema = {
      type: 'object',
      properties: { node: { $ref: '#/$defs/Node' }, $ref: { type: 'string' } },
      $defs: { Node: { type: 'object', properties: { next: { $ref: '#/$defs/Node' } } } },
    };
    expect(checkDefinition(definition({ input_schema: schema }), SOURCE, COMPILE).input_schema).toEqual(schema);
  });

  it("puts the tools of a tenant's source into that tenant", () => {
    const source: ToolSource = { kind: 'mcp', name: 'crm@acme' };
    const binding = { kind: 'mcp', server: 'crm', transport: 'streamable-http', url: 'https://x', remoteName: 'find' };
    expect(checkDefinition(definition({ binding }), source, COMPILE).tenant).toBe('acme');
    expect(() => checkDefinition(definition({ binding, tenant: 'other' }), source, COMPILE)).toThrow('tenant other');
  });

  it('lets a server announce no builtin, and an executor no sandbox of a server', () => {
    expect(() => checkDefinition(definition(), { kind: 'mcp', name: 's' }, COMPILE)).toThrow('cannot announce');
    expect(() =>
      checkDefinition(definition({ binding: { kind: 'python' } }), { kind: 'plugin', name: 'plugin.compute' }, COMPILE),
    ).toThrow('cannot announce');
  });

  it('lets a toolset announce no tool of another one, of the sandbox or of a tenant', () => {
    const files = definition({ binding: { kind: 'builtin', toolset: 'files', handler: 'file_write' } });
    expect(() => checkDefinition(files, SOURCE, COMPILE)).toThrow('cannot announce a tool of the toolset files');
    expect(() => checkDefinition(definition({ binding: { kind: 'python' } }), SOURCE, COMPILE)).toThrow(
      'only the source builtin/python-sandbox',
    );
    const tenant: ToolSource = { kind: 'builtin', name: 'builtin.compute@acme' };
    expect(() => checkDefinition(definition(), tenant, COMPILE)).toThrow('cannot announce');
  });
});

describe('toRevision', () => {
  it('depends on the content and on nothing else', () => {
    const one = checkDefinition(definition({ tags: ['a'], author: 'x' }), SOURCE, COMPILE);
    const reordered = Object.fromEntries(Object.entries(one).toReversed()) as unknown as ToolDefinition;
    expect(toRevision(one)).toMatch(/^[0-9a-f]{16}$/);
    expect(toRevision(reordered)).toBe(toRevision(one));
    expect(toRevision({ ...one, description: 'Calculates ' })).not.toBe(toRevision(one));
    // A literal, so that a change of the hash is seen: it would invalidate every cache of every fleet.
    const source: ToolSource = { kind: 'builtin', name: 'compute' };
    expect(toRevision({ ...checkDefinition(definition(), SOURCE, COMPILE), source })).toMatchInlineSnapshot(
      `"37a691ec3dd32c67"`,
    );
  });
});
