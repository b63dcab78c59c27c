import { compileSchema } from '@toolfleet/bounded-schema';
import type { Json, JsonObject } from '@toolfleet/contracts';
import { describe, expect, it } from 'vitest';
import { beginInspection, inspectTool, type InspectOptions } from './inspect-document.js';

/** A whole inspection, as the command line shows it. */
function inspectOpenApi(text: string, options: InspectOptions = {}) {
  const { conversion, warnings, ...found } = beginInspection(text, options);
  const tools = conversion?.tools.map(inspectTool) ?? [];
  return { ok: found.refused.length === 0, ...found, tools, warnings: warnings() };
}

const inspect = (document: JsonObject, options = {}) =>
  inspectOpenApi(JSON.stringify({ openapi: '3.1.0', servers: [{ url: 'https://h.test' }], ...document }), options);
const string = { schema: { type: 'string' } };

describe('inspectOpenApi', () => {
  it('has the fields of the command line', () => {
    const found = inspect({ paths: { '/a': { get: { operationId: 'x/y', summary: 's', description: 'd' } } } });
    expect(found).toEqual({
      ok: true,
      openapi: '3.1.0',
      operations: 1,
      tools: [
        {
          name: 'x_y',
          method: 'GET',
          path: '/a',
          operation_id: 'x/y',
          description: 's\n\nd',
          idempotent: true,
          input_schema: { type: 'object', properties: {}, additionalProperties: false },
        },
      ],
      warnings: [],
      refused: [],
    });
  });

  it('reports an unreadable document as a refusal', () => {
    expect(inspectOpenApi('{"swagger":"1.2"}')).toMatchObject({
      ok: false,
      openapi: null,
      tools: [],
      refused: [{ pointer: '', message: expect.stringContaining('SPEC_VERSION_UNSUPPORTED') }],
    });
  });

  it('refuses operations that reach another document, by name and place, and no others', () => {
    const found = inspect({
      paths: {
        '/far': { get: { operationId: 'far', responses: { 200: { $ref: '#/components/responses/R' } } } },
        '/near': { get: { operationId: 'near' } },
        '/file': { $ref: './file.yaml' },
      },
      components: {
        responses: { R: { content: { 'application/json': { schema: { $ref: '#/components/schemas/S' } } } } },
        schemas: { S: { items: { $ref: 'https://x.test/s.json' } }, Unused: { $ref: 'unused.json' } },
      },
    });
    expect(found.ok).toBe(false);
    expect(found.operations).toBe(3);
    expect(found.tools.map(({ name }) => name)).toEqual(['near']);
    expect(found.refused.map(({ pointer }) => pointer)).toEqual(['/paths/~1far/get', '/paths/~1file']);
    expect(found.refused[0]?.message).toMatch(
      /GET \/far \(far\).*https:\/\/x\.test\/s\.json at \/components\/schemas\/S\/items\/\$ref.*bundle/,
    );
  });

  it('reads Swagger 2.0, with shared parameters, forms and answers', () => {
    const found = inspectOpenApi(
      JSON.stringify({
        swagger: '2.0',
        host: 'shop.test',
        basePath: '/v1',
        schemes: ['http', 'https', 'ws'],
        consumes: ['application/xml'],
        produces: ['application/json'],
        parameters: {
          Page: { name: 'page', in: 'query', type: 'integer' },
          New: { name: 'n', in: 'body', schema: {} },
        },
        responses: { Item: { description: 'd', schema: { $ref: '#/definitions/Item' } } },
        definitions: { Item: { type: 'object', properties: { note: { type: 'string', 'x-nullable': true } } } },
        securityDefinitions: { basic: { type: 'basic' } },
        paths: {
          '/items': {
            parameters: [{ $ref: '#/parameters/Page' }, { $ref: '#/parameters/New' }, { name: 'lost' }],
            get: {
              operationId: 'list',
              parameters: [
                { name: 'ids', in: 'query', type: 'array', items: { type: 'string' }, collectionFormat: 'pipes' },
                { name: 'tabs', in: 'query', type: 'array', items: { type: 'string' }, collectionFormat: 'tsv' },
              ],
              responses: { 200: { $ref: '#/responses/Item' } },
            },
            post: {
              operationId: 'upload',
              parameters: [
                { name: 'file', in: 'formData', type: 'file', required: true },
                { name: 'size', in: 'formData', type: 'string', enum: ['s', 'l'], default: 's' },
                { name: 'tags', in: 'formData', type: 'array', items: { type: 'string' } },
              ],
              responses: { 200: { description: 'd', schema: { type: 'file' } } },
            },
            put: null,
          },
        },
      }),
    );
    const [list, upload] = found.tools;
    expect(list!.input_schema).toMatchObject({
      properties: { page: { type: 'integer' }, ids: { type: 'array' }, body: {} },
    });
    expect(list!.output_schema).toMatchObject({
      $defs: { Item: { properties: { note: { type: ['string', 'null'] } } } },
    });
    expect(upload!.input_schema).toMatchObject({
      properties: {
        page: {},
        body: {
          properties: { size: { enum: ['s', 'l'] }, tags: { type: 'array', items: { type: 'string' } } },
          required: ['file'],
        },
      },
      required: ['body'],
    });
    const base = beginInspection(JSON.stringify({ swagger: '2.0', host: 'h.test', paths: { '/a': { get: {} } } }), {
      specUrl: 'http://elsewhere.test/swagger.json',
    }).conversion!.tools[0]!;
    expect(base.baseUrl()).toBe('http://h.test');
    const messages = found.warnings.map(({ pointer, message }) => `${pointer} ${message}`);
    for (const said of [
      '/swagger Swagger 2.0 is read as OpenAPI 3.0',
      '/paths/~1items/parameters/2 the parameter says no place',
      '/paths/~1items/get/parameters/1 collectionFormat "tsv" is sent as',
      '/paths/~1items/post/parameters/2 collectionFormat "csv" is sent as',
      '/paths/~1items/put the operation is not an object',
    ])
      expect(
        messages.filter((message) => message.startsWith(said)),
        said,
      ).toHaveLength(1);
  });

  it('names what it leaves out of a server', () => {
    const { warnings, tools } = inspect({
      servers: [{ url: 'https://{region}.h.test/v1?key=1', variables: { region: {} } }],
      paths: { '/a': { get: {} } },
    });
    expect(tools).toHaveLength(1);
    expect(warnings.map(({ message }) => message)).toEqual([
      expect.stringContaining('the server variable "region" has no default'),
      expect.stringContaining('the query of the server URL is not sent'),
    ]);
  });

  it('shows an operationId of another script, and names the tool by method and path', () => {
    const { tools } = inspect({ paths: { '/users': { get: { operationId: '获取用户列表', summary: '用户' } } } });
    expect(tools[0]).toMatchObject({ name: 'get_users', operation_id: '获取用户列表' });
    expect(tools[0]!.description).toBe('用户\n\n获取用户列表');
  });

  it('merges parameters of path and operation, renames clashes, and never leaves an expression in the path', () => {
    const { tools, warnings } = inspect({
      paths: {
        '/p/{id}/{other}': {
          parameters: [
            { name: 'id', in: 'path', ...string },
            { name: 'q', in: 'query', schema: { type: 'integer' } },
          ],
          post: {
            parameters: [
              { name: 'q', in: 'query', ...string },
              { name: 'id', in: 'query', ...string },
              { name: 'body', in: 'header', ...string },
              { name: 'Authorization', in: 'header', ...string },
              { name: 'broken' },
              { $ref: '#/nowhere' },
            ],
            requestBody: { content: { 'application/json': {} } },
          },
        },
      },
    });
    const schema = tools[0]?.input_schema as JsonObject;
    expect(Object.keys(schema.properties as JsonObject)).toEqual([
      'path_id',
      'q',
      'query_id',
      'header_body',
      'other',
      'body',
    ]);
    expect(schema.required).toEqual(['path_id', 'other']);
    expect((schema.properties as JsonObject).q).toEqual({ type: 'string' });
    expect(warnings).toHaveLength(3);
  });

  it('describes files of multipart bodies, behind references and in arrays', () => {
    const schema = {
      allOf: [{ $ref: '#/components/schemas/Upload' }],
      properties: { many: { type: 'array', items: { $ref: '#/components/schemas/File' } }, note: { type: 'string' } },
    };
    const { tools } = inspect({
      paths: { '/u': { post: { requestBody: { content: { 'multipart/form-data': { schema } } } } } },
      components: {
        schemas: {
          File: { type: 'string', format: 'binary' },
          Upload: { type: 'object', required: ['one'], properties: { one: { $ref: '#/components/schemas/File' } } },
        },
      },
    });
    const check = compileSchema(tools[0]!.input_schema);
    const file = { content_base64: 'aGk=', filename: 'f' };
    expect(check.check({ body: { one: file, many: [file], note: 'n' } })).toBe(true);
    expect(check.check({ body: { one: 'raw' } })).toBe(false);
  });

  it('filters without renaming', () => {
    const paths = { '/a': { get: { operationId: 'a', tags: ['t'] } }, '/b': { get: { operationId: 'a' } } };
    expect(inspect({ paths }).tools.map(({ name }) => name)).toEqual(['a', 'a_2']);
    expect(inspect({ paths }, { operations: ['a_2'] }).tools.map(({ name }) => name)).toEqual(['a_2']);
    expect(inspect({ paths }, { tags: ['t'] }).tools.map(({ name }) => name)).toEqual(['a']);
    expect(
      inspect({ paths }, { operations: ['a', 'c'], tags: ['t', 'u'] }).warnings.map(({ message }) => message),
    ).toEqual(["no operation has the operationId 'c'", "no operation has the tag 'u'"]);
  });

  it('inlines to a depth for providers that refuse $defs', () => {
    const schemas = { N: { properties: { next: { $ref: '#/components/schemas/N' } } } };
    const content = { 'application/json': { schema: { $ref: '#/components/schemas/N' } } };
    const document = { paths: { '/a': { post: { requestBody: { content } } } }, components: { schemas } };
    const text = JSON.stringify(inspect(document, { schemaStyle: 'inline', inlineDepth: 2 }).tools[0]?.input_schema);
    expect(text).not.toContain('$ref');
    expect(text).toContain('not expanded further');
  });

  it.each<[string, Json]>([
    ['paths as a list', []],
    ['path items of any type', { '/a': null, '/b': 3, '/c': [], '/d': { get: 'x', post: null, put: [] } }],
    [
      'operations full of nonsense',
      { '/a': { get: { parameters: 'x', requestBody: 3, responses: [], tags: {}, security: 1, servers: 'x' } } },
    ],
    [
      'parameters full of nonsense',
      { '/a': { get: { parameters: [null, 1, {}, { name: 1, in: 'query' }, { name: 'n', in: 'nowhere' }] } } },
    ],
    [
      'schemas full of nonsense',
      {
        '/a': {
          post: {
            requestBody: {
              content: {
                'application/json': { schema: { properties: [], items: 3, allOf: {}, enum: 1, type: {}, $ref: 5 } },
              },
            },
          },
        },
      },
    ],
    [
      'names of the prototype',
      {
        '/a': {
          get: {
            operationId: '__proto__',
            parameters: [
              { name: '__proto__', in: 'query' },
              { name: 'constructor', in: 'query' },
            ],
          },
        },
      },
    ],
  ])('survives %s', (_, paths) => {
    const found = inspect({ paths });
    for (const tool of found.tools) compileSchema(tool.input_schema);
  });

  it('survives rings of everything', () => {
    const ring = (name: string) => ({ $ref: `#/components/${name}/A` });
    const found = inspect({
      paths: {
        '/a': {
          get: {
            parameters: [ring('parameters')],
            requestBody: ring('requestBodies'),
            responses: { 200: ring('responses') },
          },
        },
        '/b': { $ref: '#/paths/~1b' },
      },
      components: {
        parameters: { A: ring('parameters') },
        requestBodies: { A: ring('requestBodies') },
        responses: { A: ring('responses') },
      },
    });
    expect(found.tools).toHaveLength(1);
  });

  it('stays linear on long chains and wide bases', () => {
    const schemas: JsonObject = {};
    for (let index = 0; index < 5_000; index += 1)
      schemas[`S${index}`] = { allOf: [{ $ref: `#/components/schemas/S${(index + 1) % 5_000}` }] };
    schemas.Wide = { allOf: Array.from({ length: 60 }, () => ({ $ref: '#/components/schemas/Wide' })) };
    const post = (schema: Json, type = 'application/json') => ({
      post: { requestBody: { content: { [type]: { schema } } } },
    });
    const found = inspect({
      paths: {
        '/a': post({ $ref: '#/components/schemas/S0' }),
        '/b': post({ $ref: '#/components/schemas/Wide' }, 'multipart/form-data'),
      },
      components: { schemas },
    });
    expect(found.tools).toHaveLength(2);
  });
});
