import {
  isJsonObject,
  type Json,
  type JsonObject,
  type QuarantinedTool,
  type ToolDefinition,
} from '@toolfleet/contracts';
import { canonicalJson, sha256Hex } from '@toolfleet/schema';
import { PinPolicy } from '../pin-policy.js';

/** What an approval covers: everything a model sees of a remote tool, and its own name at the server. */
const PINNED = ['name', 'description', 'input_schema', 'output_schema', 'annotations'] as const;

/** Longest description and longest text inside a schema before an administrator has to look at it. */
const MAX_DESCRIPTION = 4_000;
const MAX_SCHEMA_TEXT = 2_000;

/** Invisible, bidirectional and tag characters: text that a reviewer does not see and a model does. */
const HIDDEN =
  /\u034f|[\u00ad\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f\u3164\ufeff\uffa0]|[\u{e0000}-\u{e007f}]/u;

/** Text that gives orders to the model instead of describing the tool. Patterns of published tool-poisoning attacks. */
const ORDERS: readonly RegExp[] = [
  /\b(?:ignore|disregard|forget|override)\b.{0,40}\b(?:previous|prior|above|earlier|other|all|system)\b.{0,30}\b(?:instruction|prompt|rule|message)s?\b/i,
  /<\s*(?:important|system|instructions?|secret)\s*>/i,
  /\b(?:do not|don't|never|without)\s+(?:tell|telling|mention|mentioning|inform|informing|notify|show|reveal)\b.{0,40}\b(?:user|human|person)\b/i,
  /\b(?:system|developer) prompt\b/i,
  /\bbefore (?:using|calling|invoking|running) (?:any|every|all|other|another|this)\b.{0,30}\b(?:tool|function)s?\b/i,
  /\b(?:you|assistant|the model|the ai|llm)\b.{0,20}\b(?:must|should|have to|need to|are required to)\b.{0,40}\b(?:call|use|read|send|include|pass|append)\b/i,
  /~\/\.(?:ssh|aws|config|netrc|env)|\bid_rsa\b|\/etc\/passwd/i,
];

/** SHA-256 over the canonical JSON of what is pinned. */
export function pinOf(definition: ToolDefinition): string {
  return sha256Hex(canonicalJson(pinnedFields(definition)));
}

/** What is suspicious about the texts of a definition; empty when nothing is. */
export function suspicions(definition: ToolDefinition): string[] {
  const found = new Set<string>();
  const look = (text: string, limit: number): void => {
    if (HIDDEN.test(text)) found.add('hidden characters');
    if (text.length > limit) found.add('over-long text');
    if (ORDERS.some((pattern) => pattern.test(text))) found.add('text that instructs the model');
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
 * function endpoints are described by the operator, not by the remote side: there is nothing to pin.
 */
export class McpPins extends PinPolicy {
  override holds(definition: ToolDefinition, approved: ToolDefinition | undefined, options: JsonObject): string | null {
    if (definition.binding.kind !== 'mcp' || definition.binding.transport === 'function-args') return null;
    if (options['trusted'] === true || options['pin'] === 'off' || options['pin'] === 'warn') return null;
    if (approved && pinOf(approved) === pinOf(definition)) return null;
    const suspicious = suspicions(definition);
    if (!approved) return suspicious.length > 0 ? `first sight: ${suspicious.join(', ')}` : null;
    const fields = this.diff(approved, definition).map(({ field }) => field);
    return [`changed: ${fields.join(', ')}`, ...suspicious].join('; ');
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
  };
}

function remoteName(definition: ToolDefinition): string {
  return definition.binding.kind === 'mcp' ? definition.binding.remoteName : definition.name;
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
