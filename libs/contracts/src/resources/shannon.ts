import {
  anything,
  choice,
  closed,
  flag,
  integer,
  list,
  maybe,
  named,
  object,
  record,
  text,
  type Value,
} from '../json-schema.js';
import type { JsonObject } from '@toolfleet/base/json';
import { BATCH, CALL_HEADERS, keyHeader, RAN, RESULT_EXAMPLE, SHANNON_RESULT } from './calls.js';
import { answer, routes } from './route.js';
import { CATEGORY, STYLE, TOOLSET } from './tools.js';

const SHANNON_CALL = named('ShannonResult', record(SHANNON_RESULT));

/** Routes of Shannon's tool system, and the function endpoint of its tests. */
export const SHANNON_ROUTES = routes({ tag: 'shannon' })({
  'GET /tools/list': {
    id: 'listToolNames',
    summary: 'Names of the tools that the caller may use',
    query: record({ ...CATEGORY, ...STYLE, ...TOOLSET }),
    answers: { 200: answer('Names', list(text())) },
  },
  'GET /tools/categories': {
    id: 'listCategories',
    summary: 'Categories of the tools that the caller may use',
    answers: { 200: answer('Names', list(text())) },
  },
  'GET /tools/schemas': {
    id: 'listToolSchemas',
    summary: 'Names, descriptions and schemas of the tools that the caller may use',
    query: record({ ...CATEGORY, ...STYLE, ...TOOLSET }),
    answers: { 200: answer('Tools', list(object())) },
  },
  'GET /tools/{name}/schema': {
    id: 'getToolSchema',
    summary: 'Name, description and schema of a tool',
    query: record({ ...STYLE, ...TOOLSET }),
    answers: { 200: answer('The tool', object()) },
    errors: ['TOOL_NOT_FOUND'],
  },
  'GET /tools/{name}/metadata': {
    id: 'getToolMetadata',
    summary: 'Properties of a tool',
    answers: { 200: answer('The tool', object()) },
    errors: ['TOOL_NOT_FOUND'],
  },
  'POST /tools/execute': {
    id: 'executeToolByName',
    summary: 'Runs a tool',
    headers: record({ ...CALL_HEADERS, 'Idempotency-Key': keyHeader(255, 'The first outcome of a key is replayed') }),
    body: closed({
      tool_name: text(undefined, { minLength: 1, maxLength: 128 }),
      parameters: object(),
      session_context: maybe(object('Of a public caller only session_id is used')),
    }),
    example: { tool_name: 'calculator', parameters: { expression: '6 * 7' } },
    audit: 'calls',
    answers: { 200: answer(RAN, SHANNON_CALL, RESULT_EXAMPLE) },
    errors: 'call',
  },
  'POST /tools/batch-execute': {
    id: 'executeToolsByName',
    summary: 'Runs several tools; an unknown tool is an item with success: false',
    headers: record({ ...CALL_HEADERS, 'Idempotency-Key': keyHeader(250, 'Each call gets it with its position') }),
    body: BATCH,
    readsBody: true,
    example: [{ tool_name: 'calculator', parameters: { expression: '6 * 7' } }],
    audit: 'calls',
    answers: {
      200: answer(
        'In request order',
        list<Value<typeof SHANNON_CALL> | JsonObject>({ anyOf: [SHANNON_CALL, object()] }),
      ),
    },
    errors: 'call',
  },
  'POST /tools/select': {
    id: 'selectTools',
    summary: 'Finds tools for a task',
    body: closed({
      task: text(undefined, { minLength: 1, maxLength: 10_000 }),
      context: maybe(object('Ignored')),
      exclude_dangerous: maybe(flag('Ignored: dangerous tools are always left out')),
      max_tools: maybe(integer('Default 2', { minimum: 0, maximum: 8 })),
    }),
    example: { task: 'What is 6 * 7?', max_tools: 1 },
    audit: 'none',
    answers: {
      200: answer(
        'Best first; calls have no arguments',
        record({
          selected_tools: list(text()),
          calls: list(record({ tool_name: text(), parameters: object() })),
          provider_used: text(),
        }),
      ),
    },
  },
  'POST /mcp/mock': {
    id: 'echo',
    tag: 'service',
    access: 'public',
    summary: 'The function endpoint of smoke tests; in local mode only',
    body: record({ function: choice(['echo']), args: maybe(object()) }),
    readsBody: true,
    example: { function: 'echo', args: { a: 1 } },
    audit: 'none',
    answers: { 200: answer('The arguments', record({ ok: flag(), function: text(), echo: anything() })) },
  },
});
