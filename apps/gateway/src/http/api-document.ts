import type { JsonObject } from '@toolfleet/contracts';
import { callFieldSchemas } from '@toolfleet/contracts/call-fields';
import { RESULT_FORMATS } from '@toolfleet/engine/batch';
import { SCHEMA_STYLES } from '@toolfleet/schema';
import { TOOL_DETAILS } from '@toolfleet/contracts/tool-definition';
import { answer, inPath, inQuery, list, operation, ref, text } from './openapi-parts.js';
import { LIST_FORMATS } from './tools.controller.js';
import { OPERATOR_PATHS, OPERATOR_SCHEMAS } from './operator-document.js';
import { SOURCE_PATHS, SOURCE_SCHEMAS } from './sources-document.js';
import { TOOLSET_PATHS, TOOLSET_SCHEMAS } from './toolsets-document.js';

const BATCH_ITEM: JsonObject = { type: 'object', properties: callFieldSchemas('batch-item') };
const PROJECT_PARAMETER: JsonObject = {
  name: 'X-Project-Id',
  in: 'header',
  schema: { type: 'string', minLength: 1, maxLength: 255 },
  description: 'Project whose files the call works on, one of those of the key; default: its first one',
};

const TOOL_FORMAT = inQuery('format', 'Form of the tools; python: their typed stub as text', {
  enum: [...LIST_FORMATS],
});
const SCHEMA_STYLE = inQuery('schema_style', 'inline: schemas without $defs, for providers that refuse them', {
  enum: [...SCHEMA_STYLES],
});
const CACHE_CONTROL: JsonObject = {
  name: 'Cache-Control',
  in: 'header',
  schema: text,
  description: 'no-store is the same as the field cache with no-store, no-cache and max-age=0 as the field with reload',
};

const TOOLSET = inQuery('toolset', 'name, or name@version: shows and calls the tools of this toolset');

/** A download: the type is that of the file. */
const FILE: JsonObject = {
  description: 'The file; Content-Disposition has its name',
  content: { '*/*': { schema: { type: 'string', format: 'binary' } } },
};

const CALL_PATHS: JsonObject = {
  '/api/v1/tools': {
    get: operation('listTools', {
      summary: 'Tools the caller may use',
      parameters: [
        inQuery('query', 'Finds tools for a task, best first'),
        inQuery('names', 'Chooses tools: up to 50 names, separated by commas'),
        inQuery('detail', 'names, or summary with the beginning of descriptions', { enum: [...TOOL_DETAILS] }),
        inQuery('category', 'Category or tag'),
        inQuery('source', 'Name of a source'),
        inQuery('limit', 'Page size; Link has the next page', { type: 'integer', minimum: 1, maximum: 9_999 }),
        inQuery('cursor', 'From the Link header of the previous page'),
        TOOL_FORMAT,
        SCHEMA_STYLE,
        TOOLSET,
      ],
      answers: { '200': answer('Tools by name', list(ref('Tool'))) },
    }),
  },
  '/api/v1/tools/{name}': {
    get: operation('getTool', {
      summary: 'One tool',
      parameters: [inPath('name'), TOOL_FORMAT, SCHEMA_STYLE, TOOLSET],
      answers: { '200': answer('The tool', ref('Tool')) },
    }),
  },
  '/api/v1/tools/{name}/execute': {
    post: operation('executeTool', {
      summary: 'Run a tool',
      parameters: [
        inPath('name'),
        TOOLSET,
        PROJECT_PARAMETER,
        {
          name: 'Idempotency-Key',
          in: 'header',
          schema: { type: 'string', maxLength: 255 },
          description: 'The first outcome of a key is replayed for 24 h',
        },
        CACHE_CONTROL,
        {
          name: 'Prefer',
          in: 'header',
          schema: text,
          description: 'wait=<seconds>: a duplicate of an unfinished call waits for it',
        },
      ],
      body: {
        type: 'object',
        required: ['arguments'],
        properties: { arguments: { type: 'object' }, ...callFieldSchemas('http') },
        additionalProperties: false,
      },
      answers: {
        '200': answer('The tool ran; `success` says whether it succeeded', ref('CallResult')),
        '202': answer('Accepted (mode async)', ref('Accepted')),
      },
    }),
  },
  '/api/v1/tools/batch-execute': {
    post: operation('executeBatch', {
      summary: 'Run several tools: {name, arguments}, or calls as models of OpenAI, Anthropic and Gemini send them',
      parameters: [
        inQuery('format', 'Shape of all answers; default: that of each call', { enum: [...RESULT_FORMATS] }),
        TOOLSET,
        PROJECT_PARAMETER,
        {
          name: 'Idempotency-Key',
          in: 'header',
          schema: { type: 'string', maxLength: 250 },
          description: 'Each call gets it with its position, so that a repeated batch is replayed',
        },
        CACHE_CONTROL,
      ],
      body: {
        anyOf: [
          list(BATCH_ITEM),
          { type: 'object', properties: { calls: list(BATCH_ITEM), ...callFieldSchemas('http-batch') } },
        ],
      },
      answers: {
        '200': answer(
          'In request order: call records; for calls of a model provider, or with a format, what the provider takes back',
          list({ anyOf: [ref('CallRecord'), { type: 'object' }] }),
        ),
      },
    }),
  },
  '/api/v1/calls/{id}': {
    get: operation('getCall', {
      summary: 'An asynchronous call',
      parameters: [inPath('id')],
      answers: { '200': answer('State, and the result once it has ended', ref('Call')) },
    }),
    delete: operation('cancelCall', {
      summary: 'Cancel an asynchronous call, waiting or running',
      parameters: [inPath('id')],
      answers: {
        '200': answer('The state in which it ended; a finished call does not change', ref('Call')),
        '202': answer('It is being stopped and has not ended yet', ref('Call')),
      },
    }),
  },
  '/api/v1/calls/{id}/result': {
    get: operation('downloadResult', {
      summary: 'The output of an ended call as a file: binary output as its bytes, text, or else JSON',
      parameters: [inPath('id')],
      answers: { '200': FILE },
    }),
  },
  '/api/v1/calls/{id}/content/{index}': {
    get: operation('downloadContent', {
      summary: 'One picture, sound, text or embedded resource of an ended call as a file',
      parameters: [inPath('id'), { ...inPath('index'), description: 'Position in `content` of the result, from 0' }],
      answers: { '200': FILE },
    }),
  },
  '/api/v1/results/{handle}': {
    get: operation('readResult', {
      summary: 'A part of a kept result: what an expression selects, or a page of its text',
      parameters: [
        inPath('handle'),
        inQuery('select', 'JSONPath or JMESPath expression'),
        inQuery('offset', 'First character of the page'),
        inQuery('limit', 'Most characters of the page, up to 100,000; default 16,000'),
        inQuery('session_id', 'Session of the call, if it had one'),
      ],
      answers: { '200': answer('`output` of the selection, or `text` of the page', { type: 'object' }) },
    }),
  },
  '/api/v1/calls/{id}/events': {
    get: operation('followCall', {
      summary: 'Server-sent events: accepted, started, progress, done',
      parameters: [inPath('id')],
      answers: {
        '200': {
          description: 'Event stream; resumes after Last-Event-ID',
          content: { 'text/event-stream': { schema: text } },
        },
        '204': { description: 'The call has ended and Last-Event-ID was its last event' },
      },
    }),
  },
  '/api/v1/usage': {
    get: operation('getUsage', {
      summary: 'What the tenant used',
      parameters: [
        inQuery('from', 'First day'),
        inQuery('to', 'Last day'),
        inQuery('group_by', 'Comma list of day, tool, user, agent'),
        inQuery('format', 'json or csv'),
      ],
      answers: { '200': answer('Sums of the ledger', { type: 'object' }) },
    }),
  },
  '/api/v1/budgets': {
    get: operation('getBudgets', {
      summary: 'Limits, spent and held',
      answers: { '200': answer('Per scope', { type: 'object' }) },
    }),
  },
};

/**
 * The public HTTP API as an OpenAPI 3.1 document, served at `/openapi.json`. Request fields come from the table of call fields,
 * refusals from the error catalogue; a spec compares the paths with the controllers.
 */
export function apiDocument(version: string): JsonObject {
  return {
    openapi: '3.1.0',
    info: {
      title: 'toolfleet',
      version,
      description: 'Runs the tool calls of agents and services. Errors: docs/errors.md.',
    },
    security: [{ bearer: [] }, { apiKey: [] }],
    paths: { ...CALL_PATHS, ...SOURCE_PATHS, ...TOOLSET_PATHS, ...OPERATOR_PATHS },
    components: {
      securitySchemes: {
        bearer: { type: 'http', scheme: 'bearer' },
        apiKey: { type: 'apiKey', in: 'header', name: 'X-API-Key' },
      },
      schemas: { ...SCHEMAS, ...OPERATOR_SCHEMAS, ...SOURCE_SCHEMAS, ...TOOLSET_SCHEMAS },
    },
  };
}

const CONTENT: JsonObject = {
  type: 'array',
  items: { type: 'object' },
  description: 'Images, audio, links and embedded resources as MCP has them, when the tool gave any',
};

const SCHEMAS: JsonObject = {
  Tool: {
    type: 'object',
    properties: {
      name: text,
      description: text,
      category: text,
      version: text,
      parameters: { type: 'object' },
      timeout_seconds: { type: 'number' },
      cost_per_use: { type: 'number', description: 'USD' },
    },
    required: ['name', 'description', 'category', 'version', 'parameters', 'timeout_seconds', 'cost_per_use'],
  },
  CallResult: {
    type: 'object',
    properties: {
      success: { type: 'boolean' },
      output: {},
      text,
      error: { type: ['string', 'null'] },
      metadata: { type: 'object' },
      content: CONTENT,
      execution_time_ms: { type: 'integer' },
      usage: {
        type: 'object',
        properties: {
          tokens: { type: 'integer' },
          cost_usd: { type: 'number' },
          replayed: { const: true, description: 'present when this is the charge of the first call with the same key' },
        },
      },
      call_id: text,
    },
    required: ['success', 'output', 'text', 'error', 'metadata', 'execution_time_ms', 'usage', 'call_id'],
  },
  Accepted: { type: 'object', properties: { call_id: text, status: { const: 'accepted' } } },
  Call: { type: 'object', properties: { call_id: text, tool: text, status: text, result: ref('CallResult') } },
  CallRecord: {
    type: 'object',
    properties: {
      id: text,
      type: { const: 'function' },
      function: { type: 'object' },
      result: { ...text, description: 'JSON text of a CallResult without its content' },
      content: CONTENT,
      success: { type: 'boolean' },
      skipped: { type: 'boolean' },
      execution_time: { type: 'integer' },
    },
  },
  Error: {
    type: 'object',
    properties: {
      error: text,
      code: text,
      hint: text,
      details: { type: 'object' },
      call_id: text,
      retry_after_ms: { type: 'integer' },
    },
    required: ['error'],
  },
};
