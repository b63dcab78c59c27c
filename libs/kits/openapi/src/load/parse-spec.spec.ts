import { describe, expect, it } from 'vitest';
import { parseSpec } from './parse-spec.js';

const refusal = (text: string, limits = {}) => {
  try {
    parseSpec(text, limits);
  } catch (error) {
    return error as { code: string; message: string; details: Record<string, unknown> };
  }
  throw new Error('the document was read');
};

describe('parseSpec', () => {
  it('reads JSON and YAML alike, dates as strings, merge keys and foreign tags included', () => {
    const yaml = `
openapi: 3.0.3
info: { version: 1.0, title: 2024-01-01 }
x-base: &base { type: object, example: 2024-05-06 }
paths:
  /a:
    get:
      x-merged: { <<: *base, title: on }
      x-tagged: !Ref something
      x-binary: !!binary aGk=
`;
    const { root, version, dialect } = parseSpec(yaml);
    expect([version, dialect]).toEqual(['3.0.3', '3.0']);
    expect(root.info).toEqual({ version: 1, title: '2024-01-01' });
    const operation = (root.paths as never)['/a']['get'];
    expect(operation['x-merged']).toEqual({ type: 'object', example: '2024-05-06', title: 'on' });
    expect([operation['x-tagged'], operation['x-binary']]).toEqual(['something', 'aGk=']);
    expect(parseSpec('\uFEFF{"openapi":"3.1.0"}').dialect).toBe('3.1');
  });

  it('keeps the last of duplicated keys, as JSON does, and warns', () => {
    const { root, findings } = parseSpec('openapi: 3.1.0\ninfo: {title: a}\ninfo: {title: b}\n');
    expect(root.info).toEqual({ title: 'b' });
    expect(findings.list()[0]?.message).toContain('duplicated key at line');
  });

  it('replaces halves of surrogate pairs and leaves whole ones alone', () => {
    const { root } = parseSpec('{"openapi":"3.1.0","x-a\\ud800":"\\ud83d\\ude00 \\udc00 \\\\ud800"}');
    expect(Object.entries(root)[1]).toEqual(['x-a\ufffd', '\u{1f600} \ufffd \\ud800']);
  });

  it.each([
    ['openapi: 3.1', '3.1', '3.1'],
    ['openapi: 3.0', '3.0', '3.0'],
    ['openapi: 3', '3.0', '3.0'],
    ['swagger: 2.0', '3.0.4', '3.0'],
    ['swagger: "2.0"', '3.0.4', '3.0'],
  ])('reads %s, quoted or not', (text, version, dialect) => {
    expect(parseSpec(text)).toMatchObject({ version, dialect });
  });

  it('reads 3.2 as 3.1 with a warning', () => {
    const { dialect, findings } = parseSpec('{"openapi":"3.2.0"}');
    expect([dialect, findings.list()[0]?.pointer]).toEqual(['3.1', '/openapi']);
  });

  it.each([
    ['{"swagger":"1.2"}', 'SPEC_VERSION_UNSUPPORTED', /not "1\.2"/],
    ['{"openapi":"2.0"}', 'SPEC_VERSION_UNSUPPORTED', /not "2\.0"/],
    ['openapi: 2', 'SPEC_VERSION_UNSUPPORTED', /not 2$/],
    ['{"asyncapi":"3.0.0"}', 'SPEC_VERSION_UNSUPPORTED', /"openapi" is missing/],
    ['[]', 'SPEC_PARSE_ERROR', /top level/],
    ['', 'SPEC_PARSE_ERROR', /top level/],
    ['just text', 'SPEC_PARSE_ERROR', /top level/],
    ['openapi: 3.1.0\npaths:\n  - a\n b: c\n', 'SPEC_PARSE_ERROR', /line 4, column \d+/],
    ['{\n  "openapi": "3.1.0",\n  "paths": {,}\n}', 'SPEC_PARSE_ERROR', /line 3, column 1\d/],
  ])('refuses %j', (text, reason, message) => {
    expect(refusal(text)).toMatchObject({
      code: 'SPEC_INVALID',
      details: { reason },
      message: expect.stringMatching(message),
    });
  });

  it('refuses documents over the caps, quickly', () => {
    expect(refusal('{"openapi":"3.1.0"}', { maxBytes: 10 }).details.reason).toBe('SPEC_TOO_LARGE');
    const bomb = ['a0: &a0 [1,1,1,1,1,1,1,1,1,1]'];
    for (let level = 1; level < 12; level += 1) {
      bomb.push(
        `a${level}: &a${level} [${Array(10)
          .fill(`*a${level - 1}`)
          .join(',')}]`,
      );
    }
    expect(refusal(`openapi: 3.1.0\n${bomb.join('\n')}\n`).details.reason).toBe('SPEC_TOO_COMPLEX');
    expect(refusal('openapi: 3.1.0\na: &a\n  b: *a\n').details.reason).toBe('SPEC_TOO_COMPLEX');
    const deep = `{"openapi":"3.1.0","x":${'['.repeat(5_000)}${']'.repeat(5_000)}}`;
    expect(refusal(deep).details.reason).toBe('SPEC_TOO_COMPLEX');
    expect(refusal(`openapi: 3.1.0\nx: ${'['.repeat(5_000)}${']'.repeat(5_000)}\n`).details.reason).toBe(
      'SPEC_TOO_COMPLEX',
    );
  });
});
