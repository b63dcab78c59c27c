import type { JsonObject } from '@toolfleet/contracts';
import { TOOLSET_SCHEMA } from '@toolfleet/contracts/toolset';
import { answer, inPath, inQuery, list, operation, ref, text } from './openapi-parts.js';

const record = (required: string[], properties: JsonObject): JsonObject => ({ type: 'object', required, properties });
const nullable = (type: JsonObject): JsonObject => ({ anyOf: [type, { type: 'null' }] });
const number: JsonObject = { type: 'integer', minimum: 1 };

const VERSION: JsonObject = {
  version: number,
  created_at: { type: 'string', format: 'date-time' },
  created_by: text,
  origin: { enum: ['config', 'api'] },
  restores: { ...number, description: 'The version that this one restored' },
};
const VERSION_FIELDS = ['version', 'created_at', 'created_by', 'origin'];
const SUMMARY: JsonObject = {
  id: { ...text, description: 'name, or name@tenant' },
  name: text,
  tenant: nullable(text),
  description: nullable(text),
  ...VERSION,
  quarantined: list(
    record(['name', 'reason', 'pending_revision'], { name: text, reason: text, pending_revision: text }),
  ),
};
const SUMMARY_FIELDS = ['id', 'name', 'tenant', 'description', ...VERSION_FIELDS, 'quarantined'];

/** Schemas that `TOOLSET_PATHS` refer to. */
export const TOOLSET_SCHEMAS: JsonObject = {
  ToolsetSpec: TOOLSET_SCHEMA as unknown as JsonObject,
  ToolsetSummary: record(SUMMARY_FIELDS, SUMMARY),
  Toolset: record([...SUMMARY_FIELDS, 'spec', 'notes', 'versions', 'tools'], {
    ...SUMMARY,
    spec: ref('ToolsetSpec'),
    notes: list(text),
    versions: list(record(VERSION_FIELDS, VERSION)),
    tools: nullable(list(text)),
  }),
};

const visibility = inQuery('visibility', 'fleet for a toolset shared with all tenants; only operators change those', {
  enum: ['tenant', 'fleet'],
});
const toolset = answer('The toolset, with the names of its tools', ref('Toolset'));

/** The paths of toolsets (docs/toolsets.md). */
export const TOOLSET_PATHS: JsonObject = {
  '/api/v1/toolsets': {
    get: operation('listToolsets', {
      summary: 'The latest version of every toolset (admin)',
      answers: { '200': answer('Toolsets by id', list(ref('ToolsetSummary'))) },
    }),
  },
  '/api/v1/toolsets/{name}': {
    get: operation('getToolset', {
      summary: 'One toolset with its history (admin)',
      parameters: [inPath('name'), visibility, inQuery('version', 'Default: the latest', number)],
      answers: { '200': toolset },
    }),
    put: operation('putToolset', {
      summary: 'Makes a new version of a toolset, unless nothing changed (admin)',
      parameters: [inPath('name'), visibility],
      body: ref('ToolsetSpec'),
      answers: { '200': toolset },
    }),
    delete: operation('removeToolset', {
      summary: 'Removes a toolset (admin)',
      parameters: [inPath('name'), visibility],
      answers: { '200': answer('Its id', record(['removed'], { removed: text })) },
    }),
  },
  '/api/v1/toolsets/{name}/rollback': {
    post: operation('rollbackToolset', {
      summary: 'Makes a new version with the content of an older one (admin)',
      parameters: [inPath('name'), visibility],
      body: record(['version'], { version: number }),
      answers: { '200': toolset },
    }),
  },
  '/api/v1/toolsets/{name}/approve': {
    post: operation('approveToolsetOverride', {
      summary: 'Puts an override into effect for the revision of its tool that was shown (admin)',
      parameters: [inPath('name'), visibility],
      body: record(['tool', 'pending_revision'], { tool: text, pending_revision: text }),
      answers: { '200': toolset },
    }),
  },
};
