import { isJsonObject, type Json, type JsonObject } from '@toolfleet/contracts';
import type { QuarantinedTool } from '@toolfleet/contracts/registry';
import type { ToolDefinition } from '@toolfleet/contracts/tool-definition';
import { canonicalJson, sha256Hex } from '@toolfleet/schema';
import { PinPolicy } from '../pin-policy.js';
import { suspicionsOf } from '../suspicion/suspicious-text.js';

/**
 * What an approval covers: everything a model sees of a remote tool, its own name at the server, and of an operation the request
 * it becomes, with the servers and the token endpoint that receive credentials.
 */
const PINNED = ['name', 'description', 'input_schema', 'output_schema', 'annotations', 'request'] as const;

/** Longest description and longest text inside a schema before an administrator has to look at it. */
const MAX_DESCRIPTION = 4_000;
const MAX_SCHEMA_TEXT = 2_000;

/** SHA-256 over the canonical JSON of what is pinned. */
export function pinOf(definition: ToolDefinition): string {
  return sha256Hex(canonicalJson(pinnedFields(definition)));
}

/** What is suspicious about the texts of a definition; empty when nothing is. */
export function suspicions(definition: ToolDefinition): string[] {
  const found = new Set<string>();
  const look = (text: string, limit: number): void => {
    for (const suspicion of suspicionsOf(text)) found.add(suspicion);
    if (text.length > limit) found.add('over-long text');
  };
  look(definition.name, MAX_SCHEMA_TEXT);
  look(remoteName(definition), MAX_SCHEMA_TEXT);
  look(definition.description, MAX_DESCRIPTION);
  for (const part of [definition.input_schema, definition.output_schema, definition.annotations]) {
    for (const text of textsIn(part)) look(text, MAX_SCHEMA_TEXT);
  }
  return [...found];
}

/**
 * Pinning of remote tools. A server the operator configured is approved at first sight unless its texts are suspicious;
 * any later change waits for an administrator. `trusted: true`, `pin: off` and `pin: warn` let changes pass. Plain
 * function endpoints, and documents that are not read from a URL, are the operator's own words: there is nothing to pin.
 */
export class RemotePins extends PinPolicy {
  override holds(
    definition: ToolDefinition,
    approved: ToolDefinition | undefined,
    options: JsonObject,
    removed?: string,
  ): string | null {
    if (!isRemote(definition, options)) return null;
    if (options['trusted'] === true || options['pin'] === 'off' || options['pin'] === 'warn') return null;
    if ((approved ? pinOf(approved) : removed) === pinOf(definition)) return null;
    const suspicious = suspicions(definition);
    if (!approved && removed !== undefined) return ['changed since it was removed', ...suspicious].join('; ');
    if (!approved) return suspicious.length > 0 ? `first sight: ${suspicious.join(', ')}` : null;
    const fields = this.diff(approved, definition).map(({ field }) => field);
    return [`changed: ${fields.join(', ')}`, ...suspicious].join('; ');
  }

  override pin(definition: ToolDefinition): string | undefined {
    return definition.binding.kind === 'mcp' || definition.binding.kind === 'openapi' ? pinOf(definition) : undefined;
  }

  override diff(approved: ToolDefinition | undefined, pending: ToolDefinition): QuarantinedTool['diff'] {
    const before: Partial<ReturnType<typeof pinnedFields>> = approved ? pinnedFields(approved) : {};
    const after = pinnedFields(pending);
    return PINNED.filter((field) => canonicalJson(before[field] ?? null) !== canonicalJson(after[field] ?? null)).map(
      (field) => ({
        field,
        before: before[field] ?? null,
        after: after[field] ?? null,
      }),
    );
  }
}

function pinnedFields(definition: ToolDefinition): Record<(typeof PINNED)[number], Json> {
  return {
    // Both names: the one models call and the one the server knows.
    name: [definition.name, remoteName(definition)],
    description: definition.description,
    input_schema: definition.input_schema,
    output_schema: definition.output_schema ?? null,
    annotations: definition.annotations ?? null,
    request: requestOf(definition),
  };
}

/** Whether somebody else wrote the definition: an MCP server, or a document that is read from a URL. */
function isRemote({ binding }: ToolDefinition, options: JsonObject): boolean {
  if (binding.kind === 'mcp') return binding.transport !== 'function-args';
  return binding.kind === 'openapi' && typeof options['document'] === 'string';
}

/** The request an operation becomes, without what the operator configured; null for tools that are no operations. */
function requestOf({ binding }: ToolDefinition): Json {
  if (binding.kind !== 'openapi') return null;
  const { method, baseUrl, path, plan } = binding;
  return { method, baseUrl, path, plan };
}

function remoteName(definition: ToolDefinition): string {
  const { binding } = definition;
  if (binding.kind === 'mcp') return binding.remoteName;
  return binding.kind === 'openapi' ? binding.operationId : definition.name;
}

function* textsIn(value: Json | undefined): Generator<string> {
  if (typeof value === 'string') yield value;
  else if (Array.isArray(value)) for (const item of value) yield* textsIn(item);
  else if (isJsonObject(value)) {
    for (const [key, item] of Object.entries(value)) {
      yield key;
      yield* textsIn(item);
    }
  }
}
