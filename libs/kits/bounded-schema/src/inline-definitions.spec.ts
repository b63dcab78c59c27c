import { describe, expect, it } from 'vitest';
import { inlineDefinitions } from './inline-definitions.js';

describe('inlineDefinitions', () => {
  it('expands references to definitions of both names, to parts of a schema and with siblings', () => {
    const schema = {
      type: 'object',
      properties: {
        a: { $ref: '#/$defs/Name', description: 'own' },
        b: { $ref: '#/definitions/Old' },
        c: { $ref: '#/properties/a' },
        d: { type: 'array', items: { $ref: '#/$defs/a~1b%20c' } },
      },
      $defs: { Name: { type: 'string', description: 'theirs' }, 'a/b c': { type: 'integer' } },
      definitions: { Old: { $ref: '#/$defs/Name' } },
    };
    const name = { type: 'string', description: 'theirs' };
    expect(inlineDefinitions(schema)).toEqual({
      type: 'object',
      properties: {
        a: { ...name, description: 'own' },
        b: name,
        c: { ...name, description: 'own' },
        d: { type: 'array', items: { type: 'integer' } },
      },
    });
  });

  it('cuts recursion with an open schema that names what was cut', () => {
    const node = { type: 'object', properties: { next: { $ref: '#/$defs/Node' } } };
    expect(inlineDefinitions({ ...node, $defs: { Node: node } }, 1)).toEqual({
      type: 'object',
      properties: { next: { type: 'object', properties: { next: { description: 'Node (not expanded further)' } } } },
    });
  });

  it('tells properties named like keywords from keywords, and data from schemas', () => {
    const schema = {
      properties: {
        default: { $ref: '#/$defs/Text' },
        enum: { $ref: '#/$defs/Text' },
        $ref: { type: 'string' },
        definitions: { type: 'object' },
        other: { const: { $ref: '#/$defs/Text' } },
      },
      $defs: { Text: { type: 'string' } },
    };
    expect(inlineDefinitions(schema)).toEqual({
      properties: {
        default: { type: 'string' },
        enum: { type: 'string' },
        $ref: { type: 'string' },
        definitions: { type: 'object' },
        other: { const: { $ref: '#/$defs/Text' } },
      },
    });
  });

  it('stays below its limit for definitions that double at every level', () => {
    const definitions = Object.fromEntries(
      Array.from({ length: 40 }, (_, level) => [
        `L${level}`,
        { allOf: Array.from({ length: 30 }, () => ({ $ref: `#/$defs/L${level + 1}` })) },
      ]),
    );
    const result = inlineDefinitions({ $ref: '#/$defs/L0', $defs: definitions }, 40);
    expect(JSON.stringify(result).length).toBeLessThan(3_000_000);
  });
});
