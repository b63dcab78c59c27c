import { isJsonObject, type Json } from '@toolfleet/contracts';

/** A value that differs; `before` or `after` is absent where there is none. */
interface JsonChange {
  /** JSON pointer (RFC 6901); empty for the whole value. */
  path: string;
  before?: Json;
  after?: Json;
}

/** Differences that are listed. */
const MAX_CHANGES = 100;
const MAX_DEPTH = 100;

/**
 * The members and items by which two values differ, at most 100. Lists are compared by position.
 * @param isIgnored whether a value of `before` stands for an unknown one
 */
export function jsonChanges(
  before: Json,
  after: Json,
  isIgnored: (before: Json) => boolean = () => false,
): JsonChange[] {
  const changes: JsonChange[] = [];
  const compare = (path: string, one: Json | undefined, other: Json | undefined, depth: number): void => {
    if (changes.length >= MAX_CHANGES || one === other || (one !== undefined && isIgnored(one))) return;
    const [ones, others] = [members(one), members(other)];
    if (!ones || !others || Array.isArray(one) !== Array.isArray(other) || depth > MAX_DEPTH) {
      changes.push({ path, before: one, after: other });
      return;
    }
    for (const name of new Set([...ones.keys(), ...others.keys()]))
      compare(
        `${path}/${name.replaceAll('~', '~0').replaceAll('/', '~1')}`,
        ones.get(name),
        others.get(name),
        depth + 1,
      );
  };
  compare('', before, after, 0);
  return changes;
}

function members(value: Json | undefined): Map<string, Json> | undefined {
  return Array.isArray(value) || isJsonObject(value) ? new Map(Object.entries(value)) : undefined;
}
