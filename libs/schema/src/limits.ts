import { ToolError, type Json, type JsonObject } from '@toolfleet/contracts';
import { nestingDepth } from '@toolfleet/contracts/json-text';

/** Longest schema in characters of JSON. The largest of 3,965 real tool schemas is well below 256 KiB. */
export const MAX_SCHEMA_CHARS = 512 * 1024;
/** Deepest nesting of a schema document. */
export const MAX_SCHEMA_DEPTH = 64;
/** Deepest nesting of arguments; also what keeps recursion over them off the stack limit. */
export const MAX_ARGUMENT_DEPTH = 128;

/**
 * Refuses schemas whose compilation would cost too much: they come from remote servers and documents.
 * @throws ToolError SPEC_INVALID
 */
export function checkSchemaSize(schema: JsonObject): void {
  const depth = nestingDepth(schema, MAX_SCHEMA_DEPTH);
  if (depth > MAX_SCHEMA_DEPTH) refuse(`the schema is nested deeper than ${MAX_SCHEMA_DEPTH} levels`);
  const size = JSON.stringify(schema).length;
  if (size > MAX_SCHEMA_CHARS) refuse(`the schema has ${size} characters, at most ${MAX_SCHEMA_CHARS} are allowed`);
}

/** Number of values in a JSON value, counted up to just above `limit`. */
export function countNodes(value: Json, limit: number): number {
  const open: Json[] = [value];
  let count = 0;
  while (open.length > 0 && count <= limit) {
    const item = open.pop();
    count += 1;
    if (typeof item !== 'object' || item === null) continue;
    for (const member of Object.values(item)) {
      open.push(member);
      if (open.length > limit) return limit + 1;
    }
  }
  return count;
}

function refuse(message: string): never {
  throw new ToolError('SPEC_INVALID', { message: `Schema refused: ${message}` });
}
