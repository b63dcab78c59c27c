import {
  choice,
  flag,
  integer,
  list,
  maybe,
  named,
  nullable,
  number,
  object,
  record,
  text,
  type RecordOf,
  type Value,
} from '../json-schema.js';
import { TOOL_DETAILS } from '../tool-definition.js';
import { answer, routes } from './route.js';

/** `inline`: schemas without `$defs`, for providers that refuse references. */
export const SCHEMA_STYLES = ['defs', 'inline'] as const;
/** Forms of tools: definitions, typed stubs and models for Python, and types for TypeScript. */
export const LIST_FORMATS = [
  'native',
  'openai',
  'openai-strict',
  'openai-responses',
  'openai-responses-strict',
  'anthropic',
  'gemini',
  'mcp',
  'python',
  'pydantic',
  'typescript',
] as const;

/** Limits of the calls of a tool, the same in every list. */
export const TOOL_LIMITS = {
  rate_limit: number('Calls per minute and tenant; 0: no limit'),
  timeout_seconds: number('Longest attempt'),
  memory_limit_mb: nullable(
    number(),
    'MiB of a run, or of the process of its server or plugin; null: it has no limit of its own',
  ),
  max_request_bytes: integer('Largest request with its arguments'),
  max_result_bytes: nullable(
    integer(),
    'Largest result: of MCP and OpenAPI tools the response of the server (OpenAPI cuts longer ones), of Python the value; null for `read_result`',
  ),
};
/** The limits that calls of a tool have. */
export type ToolLimits = RecordOf<typeof TOOL_LIMITS>;

const LISTED_TOOL = named(
  'Tool',
  record(
    {
      name: text(),
      description: text(),
      category: text(),
      version: text(),
      parameters: object('JSON Schema of the arguments'),
      ...TOOL_LIMITS,
      cost_per_use: number('USD per call'),
      available: maybe(flag('False while no executor serves the tool; otherwise absent')),
      tags: maybe(list(text())),
    },
    'A tool in the form native; with format, it is in the form of a model provider',
  ),
);
/** A tool as `GET /api/v1/tools` lists it. */
export type ListedTool = Value<typeof LISTED_TOOL>;

/** The toolset whose names a request uses. */
export const TOOLSET = { toolset: maybe(text('name, or name@version: shows and calls the tools of this toolset')) };
/** How schemas are written. */
export const STYLE = {
  schema_style: maybe(choice(SCHEMA_STYLES, 'inline: schemas without $defs, for providers that refuse them')),
};
const SHOWN = {
  format: maybe(
    choice(
      LIST_FORMATS,
      'Form of the tools; as text, python: their typed stub, pydantic: their models, typescript: their types',
    ),
  ),
  ...STYLE,
  ...TOOLSET,
};
/** Which tools are listed. */
export const CATEGORY = {
  category: maybe(text('Category or tag', { maxLength: 64 })),
  exclude_dangerous: maybe(text('Ignored: dangerous tools are always left out')),
};

export const TOOL_ROUTES = routes({ tag: 'tools' })({
  'GET /api/v1/tools': {
    id: 'listTools',
    summary: 'Tools the caller may use',
    query: record({
      query: maybe(text('Finds tools for a task, best first', { minLength: 1, maxLength: 10_000 })),
      names: maybe(text('Chooses tools: up to 50 names, separated by commas', { maxLength: 8_000 })),
      detail: maybe(choice(TOOL_DETAILS, 'names, or summary with the beginning of descriptions')),
      ...CATEGORY,
      source: maybe(text('Name of a source', { maxLength: 128 })),
      limit: maybe(integer('Page size; Link has the next page', { minimum: 1, maximum: 9_999 })),
      cursor: maybe(text('From the Link header of the previous page', { maxLength: 200 })),
      ...SHOWN,
    }),
    answers: {
      200: { ...answer('Tools by name', list(LISTED_TOOL)), textTypes: ['text/x-python', 'text/x-typescript'] },
    },
    errors: ['TOOL_NOT_FOUND'],
  },
  'GET /api/v1/tools/{name}': {
    id: 'getTool',
    summary: 'One tool',
    query: record(SHOWN),
    answers: { 200: { ...answer('The tool', LISTED_TOOL), textTypes: ['text/x-python', 'text/x-typescript'] } },
    errors: ['TOOL_NOT_FOUND'],
  },
});
