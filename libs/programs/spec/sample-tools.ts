/** Tools with ordinary and awkward schemas, names and texts. */
import type { JsonObject } from '@toolfleet/contracts';
import type { RegisteredTool } from '@toolfleet/contracts/tool-definition';
import { MANIFEST, toToolDefinition } from '@toolfleet/builtin-tools';
import { RUN_PROGRAM } from '../../../apps/registry/src/sources/run-program.definition.js';

export const tool = (name: string, input: JsonObject, more: Partial<RegisteredTool> = {}): RegisteredTool =>
  ({ name, description: `Does ${name}.`, input_schema: { type: 'object', ...input }, ...more }) as RegisteredTool;

export const object = (count: number, property: (n: number) => JsonObject): JsonObject => ({
  properties: Object.fromEntries(Array.from({ length: count }, (_, n) => [`p${n}`, property(n)])),
});
export const BUILTIN = [
  ...MANIFEST.map((one) =>
    toToolDefinition(one, { kind: 'builtin', name: 'builtin' }, { rateLimits: {}, costsMicroUsd: {} }),
  ),
  RUN_PROGRAM,
] as RegisteredTool[];

export const ORDER = tool('order_put', {
  properties: {
    limit: { type: 'integer', default: 10 },
    customer: {
      type: 'object',
      properties: { name: { type: 'string', description: 'Full name' }, age: { type: ['integer', 'null'] } },
      required: ['name'],
    },
    tags: { type: 'array', items: { enum: ['new', 'paid', null] } },
    labels: { type: 'object', additionalProperties: { type: 'number' } },
    when: { anyOf: [{ type: 'string' }, { type: 'integer' }], default: null },
    item: { $ref: '#/$defs/Item' },
  },
  required: ['customer', 'item'],
  $defs: {
    Item: { allOf: [{ $ref: '#/$defs/Base' }, { properties: { n: { const: 1 } } }] },
    Base: { properties: { id: { type: 'string' } }, required: ['id'] },
  },
});

export const NAMES = [
  tool('crm-find', { properties: { q: { type: 'string' } } }),
  ...['crm_find', 'import', '2fa', 'list', 'search', '__init__', 'Any'].map((name) => tool(name, {})),
  tool('mail', {
    properties: { from: { type: 'string' }, 'x-y': { $ref: '#' }, self: {}, größe: {}, __private: {} },
    required: ['from'],
  }),
];

export const GROWING = [
  tool('tree', {
    properties: {
      root: { $ref: '#/$defs/Node' },
      loop: { $ref: '#/$defs/Loop' },
      list: { $ref: '#/$defs/List' },
      broken: { $ref: '#/$defs/None' },
    },
    $defs: {
      Node: {
        properties: { next: { $ref: '#/$defs/Node' }, all: { type: 'array', items: { $ref: '#/$defs/Node' } } },
      },
      Loop: { $ref: '#/$defs/Loop' },
      List: { type: 'array', items: { $ref: '#/$defs/List' } },
    },
  }),
  tool('bomb', {
    properties: { d: { $ref: '#/$defs/D1' } },
    $defs: Object.fromEntries(
      Array.from({ length: 30 }, (_, n) => [`D${n}`, object(4, (m) => ({ $ref: `#/$defs/D${(n * m + m + 1) % 30}` }))]),
    ),
  }),
  tool('wide', {
    ...object(500, () => object(1, () => ({}))),
  }),
  tool('deep', { properties: { d: JSON.parse(`${'{"items":'.repeat(200)}{}${'}'.repeat(200)}`) as JsonObject } }),
];

export const ENUMS = tool('pick', {
  properties: {
    one: { enum: Array.from({ length: 5_000 }, (_, n) => `value ${n}`) },
    f: { enum: [1.5, 1e300, { a: 1 }, [2]] },
    none: { enum: [] },
  },
});

export const HOSTILE = [
  'ends with a quote "',
  '"""triple""" and """"four"""" and \\"""',
  'a backslash \\',
  'escapes \\x \\N{x} \\u12 \\d',
  'control \u0000\u0007\u001b[2J\r\nnext\fpage',
  'lone \ud800 half, \u2028 separator',
  '',
];
/** A tool with the given text everywhere an author can put one. */
export const hostile = (text: string): RegisteredTool =>
  tool(
    'say',
    {
      properties: {
        a: { type: 'string', description: text, enum: [text], default: text },
        b: { type: 'object', properties: { [text]: { type: 'string', description: text } } },
      },
    },
    { description: text, output_schema: { type: 'object', properties: { [text]: {}, class: {} } } },
  );
