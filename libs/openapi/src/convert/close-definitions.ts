import type { JsonObject } from '@toolfleet/contracts';
import { setOwn } from '../json-pointer.js';
import type { RingBreaker } from './break-rings.js';
import type { SchemaConverter } from './convert-schema.js';

/**
 * The `$defs` of one tool: the transitive closure of what its schemas refer to, and nothing else (openapi.md section 6).
 * The converted schemas are shared between tools by reference, so a tool costs one key per definition.
 * Above `limit` definitions the answer is `too_many`, found out without building them.
 */
export function closeDefinitions(
  targets: Iterable<string>,
  converter: SchemaConverter,
  rings: RingBreaker,
  limit = Number.POSITIVE_INFINITY,
): JsonObject | 'too_many' | undefined {
  const open = [...targets];
  if (open.length === 0) return undefined;
  const definitions: JsonObject = {};
  const seen = new Set(open);
  for (let target = open.pop(); target !== undefined; target = open.pop()) {
    rings.cutFrom(target);
    const definition = converter.definition(target);
    setOwn(definitions, converter.names.nameOf(target), definition.schema);
    for (const next of definition.targets) {
      if (seen.has(next)) continue;
      seen.add(next);
      if (seen.size > limit) return 'too_many';
      open.push(next);
    }
  }
  return definitions;
}
