import type { ToolError } from '@toolfleet/contracts';
import { S3Bucket, unavailable, type S3Options } from '@toolfleet/egress/s3';
import {
  ChangedMeanwhile,
  storeErrors,
  untilUnchanged,
  WorkspaceStore,
  type Entry,
  type WriteMode,
} from './workspace-store.js';

/** Objects listed in one step when a folder is removed. */
const PAGE = 1_000;

/**
 * Workspaces as objects of an S3-compatible bucket, for fleets without a shared volume. Directories are the common
 * prefixes of keys, and empty objects with a key that ends in `/`. There are no links that could lead out. All writes are atomic:
 * overwrite (a PUT), create (`If-None-Match: *`), append and change (a GET, then PUT with `If-Match`).
 */
export class S3WorkspaceStore extends WorkspaceStore {
  private readonly bucket: S3Bucket;

  constructor(options: S3Options) {
    super();
    this.bucket = new S3Bucket(options);
  }

  override async exists(workspace: string): Promise<boolean> {
    return (await this.bucket.keys(`${workspace}/`, false, 1)).length > 0;
  }

  override async stat(workspace: string, names: readonly string[]): Promise<Entry | undefined> {
    const key = toKey(workspace, names);
    if (names.length > 0) {
      const response = await this.bucket.send('HEAD', key);
      if (response.ok) {
        const modifiedAt = Date.parse(response.headers.get('last-modified') ?? '') || 0;
        return {
          names: [...names],
          type: 'file',
          size: Number(response.headers.get('content-length') ?? 0) || (await this.listedSize(key)),
          modifiedAt,
        };
      }
      if (response.status !== 404) throw unavailable(response.status);
    }
    const [below] = await this.bucket.keys(`${key}/`, false, 1);
    return below && { names: [...names], type: 'directory', size: 0, modifiedAt: below.modifiedAt };
  }

  override async read(workspace: string, names: readonly string[], maxBytes: number): Promise<Buffer> {
    return (await this.get(workspace, names, maxBytes)).bytes;
  }

  override async write(workspace: string, names: readonly string[], bytes: Uint8Array, mode: WriteMode): Promise<void> {
    await this.refuseFileParents(workspace, names);
    const key = toKey(workspace, names);
    if (mode === 'append') return this.append(workspace, names, bytes);
    if (mode === 'create') await this.bucket.conditionsKept();
    const response = await this.bucket.send('PUT', key, bytes, mode === 'create' ? { 'if-none-match': '*' } : {});
    if (response.status === 412 || response.status === 409) throw storeErrors.exists(names);
    if (!response.ok) throw unavailable(response.status);
  }

  override change(
    workspace: string,
    names: readonly string[],
    maxBytes: number,
    rewrite: (before: Buffer, replace: (after: Uint8Array) => Promise<void>) => Promise<void>,
  ): Promise<void> {
    return untilUnchanged(async () => {
      const { bytes, etag } = await this.get(workspace, names, maxBytes);
      await rewrite(bytes, (after) => this.putUnlessChanged(workspace, names, after, { 'if-match': etag }));
    });
  }

  override async makeDirectory(workspace: string, names: readonly string[]): Promise<void> {
    await this.refuseFileParents(workspace, [...names, '']);
    const response = await this.bucket.send('PUT', `${toKey(workspace, names)}/`, new Uint8Array(0));
    if (!response.ok) throw unavailable(response.status);
  }

  override async remove(workspace: string, names: readonly string[], recursive: boolean): Promise<number> {
    const key = toKey(workspace, names);
    const entry = await this.stat(workspace, names);
    if (!entry) throw storeErrors.missing(names);
    if (entry.type === 'file') {
      await this.bucket.delete(key);
      return 1;
    }
    const below = await this.bucket.keys(`${key}/`, true, Number.POSITIVE_INFINITY);
    if (!recursive && below.some((one) => one.key !== `${key}/`)) throw storeErrors.notEmpty(names);
    for (const one of below) await this.bucket.delete(one.key);
    return Math.max(1, below.length);
  }

  override async list(
    workspace: string,
    names: readonly string[],
    recursive: boolean,
    limit: number,
  ): Promise<Entry[]> {
    const at = `${toKey(workspace, names)}/`;
    const found = await this.bucket.keys(at, true, recursive ? limit : Number.POSITIVE_INFINITY);
    if (found.length === 0 && names.length > 0)
      throw (await this.stat(workspace, names)) ? storeErrors.notADirectory(names) : storeErrors.missing(names);
    const entries = new Map<string, Entry>();
    for (const { key, size, modifiedAt } of found) {
      const parts = key.slice(at.length).split('/');
      // A key implies its directories; a key that ends in `/` is a directory itself.
      for (const depth of parts.slice(0, -1).keys()) {
        const path = parts.slice(0, depth + 1);
        const known = path.join('/');
        if (!entries.has(known))
          entries.set(known, { names: [...names, ...path], type: 'directory', size: 0, modifiedAt });
      }
      if (parts.at(-1) !== '')
        entries.set(parts.join('/'), { names: [...names, ...parts], type: 'file', size, modifiedAt });
    }
    const shown = [...entries.values()].filter((entry) => recursive || entry.names.length === names.length + 1);
    return shown.toSorted((a, b) => comparePaths(a.names, b.names)).slice(0, limit);
  }

  override async countFiles(folder: string): Promise<number> {
    return (await this.bucket.keys(`${folder}/`, true, Number.POSITIVE_INFINITY)).length;
  }

  override async removeFolder(folder: string, isOver: () => boolean): Promise<{ files: number; more: boolean }> {
    for (let files = 0; ;) {
      const page = await this.bucket.keys(`${folder}/`, false, PAGE);
      for (const { key } of page) {
        if (isOver()) return { files, more: true };
        await this.bucket.delete(key);
        files += 1;
      }
      if (page.length === 0) return { files, more: false };
    }
  }

  private append(workspace: string, names: readonly string[], bytes: Uint8Array): Promise<void> {
    return untilUnchanged(async () => {
      const before = await this.get(workspace, names, Number.POSITIVE_INFINITY).catch((error: ToolError) => {
        if (error.facts?.reason !== 'missing') throw error;
        return undefined;
      });
      const body = before ? Buffer.concat([before.bytes, bytes]) : bytes;
      const condition: Record<string, string> = before ? { 'if-match': before.etag } : { 'if-none-match': '*' };
      await this.putUnlessChanged(workspace, names, body, condition);
    });
  }

  /** @throws ChangedMeanwhile */
  private async putUnlessChanged(
    workspace: string,
    names: readonly string[],
    body: Uint8Array,
    condition: Record<string, string>,
  ): Promise<void> {
    await this.bucket.conditionsKept();
    const response = await this.bucket.send('PUT', toKey(workspace, names), body, condition);
    if (response.status === 412 || response.status === 409) throw new ChangedMeanwhile();
    if (!response.ok) throw unavailable(response.status);
  }

  private async get(
    workspace: string,
    names: readonly string[],
    maxBytes: number,
  ): Promise<{ bytes: Buffer; etag: string }> {
    const response = await this.bucket.send('GET', toKey(workspace, names));
    if (response.status === 404)
      throw (await this.stat(workspace, names)) ? storeErrors.notAFile(names) : storeErrors.missing(names);
    if (!response.ok) throw unavailable(response.status);
    const bytes = Buffer.from(await response.arrayBuffer());
    if (bytes.length > maxBytes) throw storeErrors.tooLarge(names, maxBytes);
    return { bytes, etag: response.headers.get('etag') ?? '*' };
  }

  /** A bucket could hold both `a` and `a/b`, unlike a file system; the tools must behave the same on both. */
  private async refuseFileParents(workspace: string, names: readonly string[]): Promise<void> {
    for (let depth = 1; depth < names.length; depth++) {
      const parent = names.slice(0, depth);
      if ((await this.bucket.send('HEAD', toKey(workspace, parent))).ok) throw storeErrors.notADirectory(parent);
    }
  }

  private async listedSize(key: string): Promise<number> {
    return (await this.bucket.keys(key, true, 1_000)).find((one) => one.key === key)?.size ?? 0;
  }
}

function toKey(workspace: string, names: readonly string[]): string {
  return [workspace, ...names].join('/');
}

function comparePaths(a: readonly string[], b: readonly string[]): number {
  for (const [index, name] of a.entries()) {
    const other = b[index];
    if (other === undefined) return 1;
    if (name !== other) return name < other ? -1 : 1;
  }
  return a.length - b.length;
}
