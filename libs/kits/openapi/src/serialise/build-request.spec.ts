import type { Json, JsonObject } from '@toolfleet/base';
import { describe, expect, it } from 'vitest';
import { convertDocument } from '../convert/convert-document.js';
import { parseSpec } from '../load/parse-spec.js';
import { buildRequest } from './build-request.js';

/** The request of a document's only operation. */
function request(path: string, operation: JsonObject, args: JsonObject) {
  const method = operation.requestBody ? 'post' : 'get';
  const paths = { [path]: { [method]: { operationId: 'probe', responses: {}, ...operation } } };
  const { tools } = convertDocument(parseSpec(JSON.stringify({ openapi: '3.2.0', paths })));
  return buildRequest(tools[0]!.plan(), 'http://h.test', args);
}

describe('a parameter that is the whole query', () => {
  const target = (type: string, value: Json) =>
    request('/p', { parameters: [{ name: 'q', in: 'querystring', content: { [type]: { schema: {} } } }] }, { q: value })
      .target;

  it('is encoded as a whole for JSON and text', () => {
    expect(target('application/jsonpath', '$.a[1:1]')).toBe('/p?%24.a%5B1%3A1%5D');
    expect(target('application/json', { a: '&b=c' })).toBe('/p?%7B%22a%22%3A%22%26b%3Dc%22%7D');
  });

  it('is pairs for a form, with no value that adds another', () => {
    expect(target('application/x-www-form-urlencoded', { a: '1&b=2', c: ['x', 'y'] })).toBe('/p?a=1%26b%3D2&c=x&c=y');
  });
});

describe('a query that the path of the document contains', () => {
  it('stays as it is written, before the parameters', () => {
    const parameters = [{ name: 'q', in: 'query', schema: { type: 'string' } }];
    expect(request('/p?version=1%2E2&kind=a b', { parameters }, { q: 'x' }).target).toBe(
      '/p?version=1%2E2&kind=a%20b&q=x',
    );
  });
});

describe('an XML body', () => {
  const body = (value: Json) =>
    request('/p', { requestBody: { content: { 'application/xml': { schema: { type: 'object' } } } } }, { body: value })
      .body;

  it('is made of members and repeated items', () => {
    expect(body({ name: 'ada', tag: ['a', 'b'], none: null, deep: { n: 1 } })).toMatch(
      /^<\?xml version="1.0" encoding="UTF-8"\?>\n<(\w+)><name>ada<\/name><tag>a<\/tag><tag>b<\/tag><none\/><deep><n>1<\/n><\/deep><\/\1>$/,
    );
  });

  it('keeps values and names from adding elements', () => {
    const text = body({ '1<x>': '</x><admin>true</admin>&\u0000' }) as string;
    expect(text).toContain('<_1_x_>&lt;/x&gt;&lt;admin&gt;true&lt;/admin&gt;&amp;</_1_x_>');
  });
});
