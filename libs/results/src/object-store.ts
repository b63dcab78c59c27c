/**
 * Where large results are stored: a shared directory or a bucket. Keys are `<hour>/<tenant>/<name>`; the hour (UTC, as
 * `2026-11-22T05`) is the one in which the object expires, so that a sweep finds expired objects without reading the rest.
 */
export abstract class ObjectStore {
  /** Stores an object whole or not at all. */
  abstract put(key: string, bytes: Uint8Array): Promise<void>;
  /** Undefined when there is no such object. */
  abstract get(key: string): Promise<Uint8Array | undefined>;
  abstract delete(key: string): Promise<void>;
  /** Deletes the objects of all hours before `hour`. */
  abstract deleteBefore(hour: string): Promise<void>;
  /** Deletes all objects with keys that begin with `<hour>/<tenant>/`, or counts them; returns how many there were. */
  abstract deleteTenant(hour: string, tenant: string, dryRun: boolean): Promise<number>;
  async close(): Promise<void> {}
}

/** Form of the first segment of a key. */
export const HOUR = /^\d{4}-\d\d-\d\dT\d\d$/;
