import type { Json, JsonObject } from '@toolfleet/contracts';

/** Part of a document at a JSON pointer (RFC 6901); undefined when there is none. */
export function schemaAt(root: Json, pointer: string): Json | undefined {
  let node: Json | undefined = root;
  for (const token of pointer.split('/').slice(1)) {
    const key = token.replaceAll('~1', '/').replaceAll('~0', '~');
    if (typeof node !== 'object' || node === null || !Object.hasOwn(node, key)) return undefined;
    node = (node as JsonObject)[key];
  }
  return node;
}

/** `a/b` as one token of a JSON pointer. */
export function escapePointer(name: string): string {
  return name.replaceAll('~', '~0').replaceAll('/', '~1');
}

/** The pointer of a reference inside a document (`#/$defs/a%20b`). */
export function decodeFragment(ref: string): string {
  try {
    return decodeURIComponent(ref.slice(1));
  } catch {
    return ref.slice(1);
  }
}
