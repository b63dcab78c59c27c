import type { JsonObject } from '@toolfleet/base/json';
import {
  choice,
  closed,
  dictionary,
  flag,
  instant,
  integer,
  list,
  maybe,
  named,
  nullable,
  object,
  record,
  text,
  type Schema,
  type Value,
} from '../json-schema.js';
import { answer, routes } from './route.js';
import { PENDING_APPROVAL } from './sources.js';

const MANY = { maxItems: 1_000 };
const globs = (description?: string): Schema<string[]> =>
  list(text(undefined, { pattern: '^[A-Za-z0-9_.*:/-]{1,128}$' }), description, MANY);
const texts = (description?: string): Schema<string[]> =>
  list(text(undefined, { minLength: 1, maxLength: 128 }), description, MANY);
const NAME = text(undefined, { pattern: '^[A-Za-z0-9_-]{1,64}$' });

const SELECTION = closed(
  {
    tools: maybe(globs('Names, in which * stands for any characters')),
    tags: maybe(texts()),
    categories: maybe(texts()),
    sources: maybe(
      globs('kind/name of sources, such as mcp/crm, in which * stands for any characters; without the tenant'),
    ),
  },
  'A tool is selected when it matches any entry of any list',
);
/** Which tools a selection names. */
export type ToolSelection = Value<typeof SELECTION>;

const OVERRIDE = closed(
  {
    name: maybe({ ...NAME, description: 'Name in the toolset. The original name is unknown there' } as Schema<string>),
    description: maybe(text(undefined, { minLength: 1, maxLength: 8_000 })),
    preset: maybe(object('Arguments with a fixed value: not in the shown schema, and refused from callers')),
    defaults: maybe(object('Values of arguments that the caller omits, in place of the defaults of the schema')),
    hide: maybe(texts('Optional arguments that are not in the shown schema')),
  },
  'How a toolset shows one tool',
);
export type ToolOverride = Value<typeof OVERRIDE>;

/** The body of `PUT /api/v1/toolsets/{name}`, and an entry of `toolsets` in the configuration file (docs/toolsets.md). */
export const TOOLSET_SCHEMA = named(
  'ToolsetSpec',
  closed({
    description: maybe(text(undefined, { maxLength: 2_000 })),
    instructions: maybe(text('Sent to MCP clients when they connect', { maxLength: 8_000 })),
    include: maybe(SELECTION),
    exclude: maybe(SELECTION),
    read_only: maybe(flag('Only tools whose annotations declare readOnlyHint')),
    order: maybe(list(NAME, 'Shown names that are listed first, in this order; all others follow by name', MANY)),
    overrides: maybe({
      ...dictionary(OVERRIDE, 'By original name'),
      maxProperties: 500,
      propertyNames: NAME,
    } as Schema<Record<string, ToolOverride>>),
  }),
);
/** A selection of tools as an administrator writes it. Without `include`, every tool. */
export type ToolsetSpec = Value<typeof TOOLSET_SCHEMA>;

const VERSION = {
  version: integer(undefined, { minimum: 1 }),
  created_at: instant(),
  created_by: text(),
  origin: choice(['config', 'api'], 'Where it is declared: the configuration file, or over the API'),
  restores: maybe(integer('The version that this one restored', { minimum: 1 })),
};
const SUMMARY = {
  id: text('name, or name@tenant: the path below /api/v1/toolsets'),
  name: text(),
  tenant: nullable(text(), 'The only tenant that uses it; null: shared with all tenants'),
  description: nullable(text()),
  ...VERSION,
  quarantined: list(PENDING_APPROVAL, 'Overrides that await an approval: their tools are hidden'),
};
const TOOLSET_VERSION = record(VERSION);
/** One version in the history of a toolset. */
export type ToolsetVersion = Value<typeof TOOLSET_VERSION>;
export type ToolsetOrigin = ToolsetVersion['origin'];
const TOOLSET_SUMMARY = named('ToolsetSummary', record(SUMMARY));
/** A toolset as administrators see it. */
export type ToolsetSummary = Value<typeof TOOLSET_SUMMARY>;

const DETAIL = {
  ...SUMMARY,
  spec: TOOLSET_SCHEMA,
  notes: list(text(), 'For its administrator, such as names that match no tool'),
  versions: list(TOOLSET_VERSION, 'Newest first'),
};
const TOOLSET_DETAIL = record(DETAIL);
export type ToolsetDetail = Value<typeof TOOLSET_DETAIL>;
const SHOWN_TOOLSET = named(
  'Toolset',
  record({
    ...DETAIL,
    tools: nullable(
      list(text()),
      "Names of its tools; null where they are unknown: a toolset of the caller's own tenant has the name of this shared one",
    ),
  }),
);
/** A toolset with the names of its tools. */
export type ShownToolset = Value<typeof SHOWN_TOOLSET>;

const visibility = maybe(
  choice(['tenant', 'fleet'], 'fleet for a toolset shared with all tenants; only operators change those'),
);
const OWNER = record({ visibility });
const shown = { 200: answer('The toolset, with the names of its tools', SHOWN_TOOLSET) };
const SPEC_EXAMPLE: JsonObject = { include: { tools: ['calculator'], sources: ['mcp/crm'] }, read_only: true };

export const TOOLSET_ROUTES = routes({ tag: 'toolsets', owner: 'registry', access: 'manage_toolsets' })({
  'GET /api/v1/toolsets': {
    id: 'listToolsets',
    summary: 'The latest version of every toolset',
    answers: { 200: answer('Toolsets by id', list(TOOLSET_SUMMARY)) },
  },
  'GET /api/v1/toolsets/{name}': {
    id: 'getToolset',
    summary: 'One toolset with its history',
    query: record({ visibility, version: maybe(integer('Default: the latest', { minimum: 1, maximum: 999_999_999 })) }),
    answers: shown,
  },
  'PUT /api/v1/toolsets/{name}': {
    id: 'putToolset',
    summary: 'Makes a new version of a toolset, unless nothing changed',
    query: OWNER,
    body: TOOLSET_SCHEMA,
    readsBody: true,
    example: SPEC_EXAMPLE,
    answers: shown,
    errors: ['QUOTA_EXCEEDED'],
  },
  'DELETE /api/v1/toolsets/{name}': {
    id: 'removeToolset',
    summary: 'Removes a toolset',
    query: OWNER,
    answers: { 200: answer('Its id', record({ removed: text() })) },
  },
  'POST /api/v1/toolsets/{name}/rollback': {
    id: 'rollbackToolset',
    summary: 'Makes a new version with the content of an older one',
    query: OWNER,
    body: closed({ version: integer(undefined, { minimum: 1 }) }),
    example: { version: 2 },
    audit: ['version'],
    answers: shown,
  },
  'POST /api/v1/toolsets/{name}/approve': {
    id: 'approveToolsetOverride',
    summary: 'Puts an override into effect for the revision of its tool that was shown',
    query: OWNER,
    body: closed({
      tool: text('Original name of the tool', { minLength: 1, maxLength: 64 }),
      pending_revision: text('The revision that was shown', { minLength: 1, maxLength: 64 }),
    }),
    example: { tool: 'crm_find', pending_revision: '3f1c0f0e9d2b4a57' },
    audit: ['tool', 'pending_revision'],
    answers: shown,
  },
});
