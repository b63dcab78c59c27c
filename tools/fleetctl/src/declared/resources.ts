import type { JsonObject } from '@toolfleet/contracts';

/** A resource that files declare. */
export interface Wanted {
  /** Id in the declaration, such as `toolsets/support@acme`. */
  id: string;
  /** Place in the files, such as `toolsets.support`. */
  path: string;
  /** The form compared with the fleet; secrets are `${kept}`. */
  value: JsonObject;
  /** Whether a part differs that cannot be read back, by the note of the last apply. Absent: there is none. */
  hiddenChange?(note: string | undefined): Promise<string | undefined>;
  /** Why it cannot be applied, with the remedy. */
  obstacle?(current: Current | undefined, changes: boolean): string | undefined;
  /** Creates or changes it. @returns a note for the next apply */
  put(current: Current | undefined): Promise<string>;
}

/** A resource as it is at the fleet. */
export interface Current {
  id: string;
  read(): Promise<JsonObject>;
  /** The note of the declaration when it takes this over unchanged. */
  note?: string;
  /** Absent: applying never removes it. */
  remove?(): Promise<unknown>;
  /** It belongs to the configuration file of the operator. */
  isConfigured?: true;
}

/** The resources of one kind. */
export interface Kind {
  wanted: readonly Wanted[];
  /** By id. */
  current: ReadonlyMap<string, Current>;
}

/** One difference: `path: before → after`. */
export function differences(before: JsonObject | undefined, after: JsonObject, path = ''): string[] {
  const names = [...new Set([...Object.keys(before ?? {}), ...Object.keys(after)])].toSorted();
  return names.flatMap((name) => {
    const [was, is] = [normal(before?.[name]), normal(after[name])];
    const at = path === '' ? name : `${path}.${name}`;
    if (JSON.stringify(was) === JSON.stringify(is)) return [];
    if (isMapping(was) && isMapping(is)) return differences(was, is, at);
    return [`${at}: ${shown(was)} → ${shown(is)}`];
  });
}

const isMapping = (value: unknown): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** Absent and null say the same; the order of members says nothing. */
function normal(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(normal);
  if (!isMapping(value)) return value ?? undefined;
  const members = Object.entries(value)
    .map(([name, member]) => [name, normal(member)] as const)
    .filter(([, member]) => member !== undefined)
    .toSorted(([a], [b]) => (a < b ? -1 : 1));
  return Object.fromEntries(members);
}

const MAX_SHOWN = 120;
const shown = (value: unknown): string => {
  if (value === undefined) return 'none';
  const text = JSON.stringify(value);
  return text.length > MAX_SHOWN ? `${text.slice(0, MAX_SHOWN)}…` : text;
};
