import { RegoError } from './rego-error.js';
import { equal, toKey, RegoObject, RegoSet, type RegoValue } from './value.js';

type ExtentEntry = { key: RegoValue } & (
  | { kind: 'value'; value: RegoValue }
  | { kind: 'members'; members: RegoSet }
  | { kind: 'below'; below: Extent }
);

/** An object that many rules build together, path by path. */
export class Extent {
  private readonly entries = new Map<string, ExtentEntry>();

  /** The part below a path. @throws RegoError conflict when a value is there */
  at(path: readonly RegoValue[]): Extent {
    return path.reduce<Extent>((extent, key) => extent.child(key), this);
  }

  /** Sets a value. @throws RegoError conflict when another one is there, or something below it */
  put(path: readonly RegoValue[], value: RegoValue): void {
    const parent = this.at(path.slice(0, -1));
    const key = path.at(-1)!;
    const found = parent.entries.get(toKey(key));
    if (!found) parent.entries.set(toKey(key), { key, kind: 'value', value });
    else if (found.kind !== 'value' || !equal(found.value, value)) throw conflict();
  }

  /** Adds to the set at a path. */
  addMember(path: readonly RegoValue[], member: RegoValue): void {
    const parent = this.at(path.slice(0, -1));
    const key = path.at(-1)!;
    const found = parent.entries.get(toKey(key));
    if (!found) parent.entries.set(toKey(key), { key, kind: 'members', members: new RegoSet([member]) });
    else if (found.kind === 'members') found.members.add(member);
    else throw conflict();
  }

  value(): RegoObject {
    const object = new RegoObject();
    for (const entry of this.entries.values()) {
      const value = entry.kind === 'below' ? entry.below.value() : entry.kind === 'value' ? entry.value : entry.members;
      object.set(entry.key, value);
    }
    return object;
  }

  private child(key: RegoValue): Extent {
    const found = this.entries.get(toKey(key));
    if (found?.kind === 'below') return found.below;
    if (found) throw conflict();
    const below = new Extent();
    this.entries.set(toKey(key), { key, kind: 'below', below });
    return below;
  }
}

function conflict(): RegoError {
  return new RegoError('conflict', 'object keys must be unique');
}
