import { isCodedError, type Json, type JsonObject } from '@toolfleet/base';
import { compileSchema } from '@toolfleet/bounded-schema';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { convertDocument } from './convert/convert-document.js';
import { parseSpec } from './load/parse-spec.js';
import { buildRequest } from './serialise/build-request.js';

/** Values that stand where something else belongs. */
const JUNK: readonly Json[] = [
  null,
  true,
  -1,
  1e308,
  '',
  'x',
  '#',
  '#/components/schemas/Node',
  'https://x.test/y#/z',
  '\u0000\r\n',
  '\ud800',
  'a'.repeat(300),
  [],
  {},
  [[null]],
  { $ref: '#' },
  { $ref: 5 },
  { $ref: '#/components' },
  { $ref: '#/components/schemas/Nope' },
  { type: ['string', 5, 'wat'] },
  { allOf: [null, { $ref: '#/components/schemas/Node' }] },
  { pattern: '(', required: 'a', enum: [], items: [] },
  { oneOf: [{ $ref: '#/components/schemas/Node' }], nullable: 'yes' },
];

const DOCUMENT: JsonObject = {
  openapi: '3.1.0',
  servers: [{ url: 'https://{host}.test', variables: { host: { default: 'a' } } }],
  paths: {
    '/a/{id}/{rest}': {
      parameters: [
        {
          name: 'id',
          in: 'path',
          required: true,
          style: 'matrix',
          schema: { type: 'array', items: { type: 'string' } },
        },
      ],
      get: {
        operationId: 'a/b',
        parameters: [
          { name: 'q', in: 'query', style: 'deepObject', schema: { $ref: '#/components/schemas/Node' } },
          { name: 'X-H', in: 'header', content: { 'application/json': { schema: { type: 'object' } } } },
          { name: 'c', in: 'cookie', explode: false, schema: { type: 'object' } },
        ],
        responses: { 200: { content: { 'application/json': { schema: { $ref: '#/components/schemas/Node' } } } } },
        security: [{ key: [] }],
      },
      post: {
        operationId: 'a_b',
        requestBody: {
          content: {
            'multipart/form-data': {
              schema: {
                properties: { f: { type: 'string', format: 'binary' }, n: { $ref: '#/components/schemas/Node' } },
              },
              encoding: { n: { contentType: 'application/json' } },
            },
          },
        },
      },
    },
    '/b': { $ref: '#/paths/~1a~1{id}~1{rest}' },
  },
  components: {
    schemas: {
      Node: {
        type: 'object',
        required: ['next'],
        properties: {
          next: { oneOf: [{ $ref: '#/components/schemas/Node' }, { type: 'null' }] },
          id: { readOnly: true },
        },
      },
    },
    securitySchemes: { key: { type: 'apiKey', in: 'header', name: 'X-Key' } },
  },
};

/** One change of the document: which place (by its number), and what is put there; undefined deletes. */
const change = fc.tuple(fc.nat(500), fc.option(fc.constantFrom(...JUNK), { nil: undefined, freq: 6 }));

describe('documents that were damaged', () => {
  it('give legal tools or a clear refusal, and requests without anything unexpanded', () => {
    fc.assert(
      fc.property(
        fc.array(change, { minLength: 1, maxLength: 12 }),
        fc.array(fc.constantFrom(...JUNK), { minLength: 8, maxLength: 8 }),
        (changes, values) => {
          const text = JSON.stringify(damaged(changes));
          let conversion;
          try {
            conversion = convertDocument(parseSpec(text), { baseUrl: 'https://h.test' });
          } catch (error) {
            expect(isCodedError(error) && error.code).toBe('SPEC_INVALID');
            return;
          }
          const names = conversion.tools.map(({ name }) => name);
          expect(new Set(names).size).toBe(names.length);
          for (const tool of conversion.tools) {
            expect(tool.name).toMatch(/^[A-Za-z0-9_-]{1,64}$/);
            const schema = tool.inputSchema();
            expect(JSON.stringify(schema)).not.toMatch(/"\$ref":"(?!#\/\$defs\/)/);
            compileSchema(schema);
            tool.outputSchema();
            const args = Object.fromEntries(
              Object.keys(schema.properties as JsonObject).map((name, index) => [name, values[index % 8] as Json]),
            );
            expectClean(() => buildRequest(tool.plan(), 'https://h.test/v1', args).target);
          }
        },
      ),
      { numRuns: 300 },
    );
  });
});

function expectClean(build: () => string): void {
  try {
    expect(build()).toMatch(/^\/v1\/[\x21-\x7a\x7c\x7e]*$/);
  } catch (error) {
    if (!isCodedError(error)) throw error;
    expect(error.code).toBe('ARGUMENTS_INVALID');
  }
}

function damaged(changes: readonly (readonly [number, Json | undefined])[]): JsonObject {
  const copy = structuredClone(DOCUMENT);
  for (const [place, value] of changes) {
    const places: [JsonObject, string][] = [];
    collect(copy, places);
    const [holder, key] = places[place % places.length] ?? [copy, 'x-nothing'];
    if (value === undefined) delete holder[key];
    else holder[key] = structuredClone(value);
  }
  return copy;
}

function collect(node: Json, places: [JsonObject, string][]): void {
  if (typeof node !== 'object' || node === null) return;
  for (const key of Object.keys(node)) {
    places.push([node as JsonObject, key]);
    collect((node as JsonObject)[key] as Json, places);
  }
}
