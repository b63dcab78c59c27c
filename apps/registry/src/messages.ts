import type { JsonObject } from '@toolfleet/contracts';
import type {
  DefinitionGet,
  DefinitionList,
  DefinitionRegister,
  DefinitionRetire,
  QuarantineApprove,
  QuarantineList,
  QuarantineReject,
  SourceListRequest,
  SourceRefresh,
} from '@toolfleet/contracts/registry';
import { validateMessage } from '@toolfleet/schema';

/**
 * Readers of the registry's NATS messages. Each throws ToolError REQUEST_INVALID. The definitions in a message are checked one by
 * one later (`checkDefinition`), so that an invalid one refuses only itself.
 */
const source: JsonObject = {
  type: 'object',
  properties: {
    kind: { enum: ['builtin', 'openapi', 'mcp', 'plugin'] },
    name: { type: 'string', pattern: '^[A-Za-z0-9_.:-]{1,128}(@[A-Za-z0-9_.:-]{1,128})?$' },
  },
  required: ['kind', 'name'],
};
const text: JsonObject = { type: 'string', minLength: 1, maxLength: 200 };

export const readGet = validateMessage<DefinitionGet>({
  type: 'object',
  properties: { name: text, tenant_id: text },
  required: ['name'],
});

const list = validateMessage<DefinitionList>({
  type: 'object',
  properties: { tenant_id: text, category: text, cursor: text, limit: { type: 'integer', minimum: 1 } },
});
/** An empty body lists all tools without a tenant. */
export const readList = (body: unknown): DefinitionList => list(body ?? {});

export const readRegister = validateMessage<DefinitionRegister>({
  type: 'object',
  properties: {
    source,
    definitions: { type: 'array', maxItems: 50_000 },
    replace: { type: 'boolean' },
    ttl_ms: { type: 'integer', minimum: 500, maximum: 86_400_000 },
    options: { type: 'object' },
  },
  required: ['source', 'definitions', 'replace'],
});

export const readRetire = validateMessage<DefinitionRetire>({
  type: 'object',
  properties: { source, names: { type: 'array', items: text, maxItems: 50_000 } },
  required: ['source'],
});

const sourceList = validateMessage<SourceListRequest>({
  type: 'object',
  properties: { source, tenant: { type: ['string', 'null'], maxLength: 200 } },
});
/** An empty body lists everything. */
export const readSourceList = (body: unknown): SourceListRequest => sourceList(body ?? {});

export const readSourceRefresh = validateMessage<SourceRefresh>({
  type: 'object',
  properties: { source },
  required: ['source'],
});

const quarantineList = validateMessage<QuarantineList>({ type: 'object', properties: { source } });
/** An empty body lists everything. */
export const readQuarantineList = (body: unknown): QuarantineList => quarantineList(body ?? {});

export const readApprove = validateMessage<QuarantineApprove>({
  type: 'object',
  properties: { name: text, pending_revision: text, approved_by: text },
  required: ['name', 'pending_revision', 'approved_by'],
});

export const readReject = validateMessage<QuarantineReject>({
  type: 'object',
  properties: { name: text, pending_revision: text, rejected_by: text },
  required: ['name', 'pending_revision', 'rejected_by'],
});
