import type { JsonObject } from '@toolfleet/contracts';
import { setOwn } from '../json-pointer.js';
import type { RingBreaker } from './break-rings.js';
import type { SchemaConverter } from './convert-schema.js';

/**
 * The `$defs` of one tool: the transitive closure of what its schemas refer to, and nothing else (openapi.md section 6).
 * The converted schemas are shared between tools by reference, so a tool costs one key per definition.
 */
export function closeDefinitions(
  targets: Iterable<string>,
  converter: SchemaConverter,
  rings: RingBreaker,
): JsonObject | undefined {
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
      open.push(next);
    }
  }
  return definitions;
}
