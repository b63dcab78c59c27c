import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { readFleetFile } from './fleet-file.js';

const folder = mkdtempSync(join(tmpdir(), 'toolfleet-fleet-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const read = (content: string) => {
  writeFileSync(join(folder, 'fleet.yaml'), content);
  return readFleetFile(join(folder, 'fleet.yaml'));
};

describe('the configuration file', () => {
  it.each([
    ['', {}],
    ['# only a comment\n', {}],
    ['{"a": [1, true, null]}', { a: [1, true, null] }],
    ['key: ${VAR}\nday: 2020-01-01\n', { key: '${VAR}', day: '2020-01-01' }],
    ['base: &b {x: 1}\nuse:\n  <<: *b\n  y: 2\n', { base: { x: 1 }, use: { x: 1, y: 2 } }],
    ['yes: on\noctal: 010\n', { yes: 'on', octal: 10 }],
  ])('reads %j', (content, expected) => expect(read(content)).toEqual(expected));

  it.each([
    ['- a list', /must be a mapping/],
    ['a: [1', /not valid YAML/],
    ['a: 1\na: 2', /not valid YAML: duplicated mapping key/],
    ['x: !!js/function "f"', /not valid YAML/],
  ])('refuses %j and says where', (content, message) => {
    expect(() => read(content)).toThrow(message);
    expect(() => read(content)).toThrow(expect.objectContaining({ startRefused: true }));
  });

  it('names a missing file', () => {
    expect(() => readFleetFile(join(folder, 'none.yaml'))).toThrow(/none\.yaml cannot be read: ENOENT/);
  });

  it('a prototype key is data', () => {
    const document = read('__proto__: {polluted: 1}\n');
    expect(({} as Record<string, unknown>)['polluted']).toBeUndefined();
    expect(Object.keys(document)).toEqual(['__proto__']);
  });
});
