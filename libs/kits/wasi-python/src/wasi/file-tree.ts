import { ERRNO } from './guest-memory.js';

/**
 * The complete file system of a guest: nested Maps with files as leaves. The guest can reach only this tree. The folders of the
 * run in it can be written (`RunFiles`), and nothing else.
 */
export type Directory = Map<string, TreeNode>;
/** `/dev/result`: a bounded buffer of the host, separate from the guest's stdout. */
export const RESULT_DEVICE = Symbol('/dev/result');
/** `/dev/tools`, for programs that call tools. */
export const TOOLS_DEVICE = Symbol('/dev/tools');
export type TreeNode = Directory | FileNode | typeof RESULT_DEVICE | typeof TOOLS_DEVICE;

/** A file. */
export interface FileNode {
  /** Its content, unless it has blocks. */
  bytes: Uint8Array;
  size: number;
  /** Content of a file that the run wrote, in blocks of `BLOCK_BYTES`: a file that grows is never copied. The last may be shorter. */
  blocks?: Uint8Array[];
  /** Bytes charged to the run. */
  charged?: number;
  /** The run wrote, made or renamed it. */
  isWritten?: boolean;
  /** It has no name any more; its bytes are given back when the last descriptor is closed. */
  isRemoved?: boolean;
  /** Open descriptors. */
  opens?: number;
}

/** Copies from a position of a file until `target` is full. The caller checks that the file is long enough. */
export function copyOf({ bytes, blocks }: FileNode, at: number, target: Uint8Array): void {
  if (!blocks) return target.set(bytes.subarray(at, at + target.length));
  for (let done = 0; done < target.length;) {
    const offset = (at + done) % BLOCK_BYTES;
    const part = blocks[Math.floor((at + done) / BLOCK_BYTES)]!.subarray(offset, offset + target.length - done);
    target.set(part, done);
    done += part.length;
  }
}

/** A copy of a file's bytes. */
export function contentOf(file: FileNode): Uint8Array {
  const bytes = new Uint8Array(file.size);
  copyOf(file, 0, bytes);
  return bytes;
}

/** Content of a data file as a caller sends it: text, or bytes as base64. */
export type FileContent = string | { base64: string };

/** Maximum length of the path of a data file, and of a name in a path. */
const MAX_NAME = 255;
/** Charged for each file and folder of a run in addition to its bytes, so that a million empty ones are not free. */
const ENTRY_BYTES = 1_024;
const BLOCK_BYTES = 64 * 1024;
/** Room of the last block: a power of two from here on. */
const LEAST_BYTES = 256;

/**
 * Builds the tree of the data files of a call; `a/b.txt` creates a directory `a`.
 * @throws Error that names the file if its name is not a plain relative path or conflicts with another
 */
export function buildTree(files: Readonly<Record<string, FileContent>>): Directory {
  const root: Directory = new Map();
  for (const [path, content] of Object.entries(files)) {
    const parts = path.split('/');
    const bad = parts.some((part) => part === '' || part === '.' || part === '..');
    if (bad || path.length > MAX_NAME || path.includes('\0')) {
      throw new Error(`file name ${JSON.stringify(path.slice(0, MAX_NAME))} is not a plain relative path`);
    }
    let directory = root;
    for (const part of parts.slice(0, -1)) {
      const next = directory.get(part) ?? new Map<string, TreeNode>();
      if (!(next instanceof Map)) throw new Error(`file name ${JSON.stringify(path)} uses a file as a directory`);
      directory.set(part, next);
      directory = next;
    }
    const leaf = parts.at(-1)!;
    if (directory.has(leaf)) throw new Error(`file name ${JSON.stringify(path)} is used twice`);
    directory.set(leaf, toFile(toBytes(content)));
  }
  return root;
}

function toBytes(content: FileContent): Uint8Array {
  return typeof content === 'string' ? new TextEncoder().encode(content) : Buffer.from(content.base64, 'base64');
}

/** A file with this content. */
export function toFile(bytes: Uint8Array): FileNode {
  return { bytes, size: bytes.length };
}

/** The files below a directory with their relative paths, in the order of their creation. */
export function* filesBelow(directory: Directory, prefix = ''): Generator<[path: string, file: FileNode]> {
  for (const [name, node] of directory) {
    if (node instanceof Map) yield* filesBelow(node, `${prefix}${name}/`);
    else if (typeof node === 'object') yield [prefix + name, node];
  }
}

/** An entry of a directory that a path names; `node` is undefined if there is none of that name. */
export interface FolderEntry {
  parent: Directory;
  name: string;
  node: TreeNode | undefined;
}

/**
 * Changes the folders of one run. All bytes are in memory and charged to the run with `charge`. It returns false beyond
 * the limit, and takes negative numbers back. Methods return an errno.
 */
export class RunFiles {
  constructor(private readonly charge: (bytes: number) => boolean) {}

  /** Charges the files that the caller of the run sent, and returns them. */
  chargeGiven(root: Directory): FileNode[] {
    const files = [...filesBelow(root)].map(([, file]) => file);
    for (const file of files) {
      file.charged = file.size;
      this.charge(ENTRY_BYTES + file.size);
    }
    return files;
  }

  /** Adds an empty file or a directory. */
  add({ parent, name }: FolderEntry, node: FileNode | Directory): number {
    if (name.length > MAX_NAME) return ERRNO.NAMETOOLONG;
    if (!this.tryCharge(ENTRY_BYTES)) return ERRNO.NOSPC;
    parent.set(name, node);
    return ERRNO.SUCCESS;
  }

  /** Removes a file, or an empty directory. */
  remove({ parent, name, node }: FolderEntry, kind: 'file' | 'directory'): number {
    if (node === undefined) return ERRNO.NOENT;
    if (kind === 'directory' && !(node instanceof Map)) return ERRNO.NOTDIR;
    if (kind === 'file' && node instanceof Map) return ERRNO.ISDIR;
    if (node instanceof Map && node.size > 0) return ERRNO.NOTEMPTY;
    parent.delete(name);
    this.charge(-ENTRY_BYTES);
    if (typeof node === 'object' && !(node instanceof Map)) {
      node.isRemoved = true;
      this.closed(node);
    }
    return ERRNO.SUCCESS;
  }

  /** Moves an entry to a path of the run, and replaces a file or an empty directory that has this path. */
  rename(from: FolderEntry, to: FolderEntry): number {
    if (from.node === undefined) return ERRNO.NOENT;
    if (from.node === to.node) return ERRNO.SUCCESS;
    if (to.name.length > MAX_NAME) return ERRNO.NAMETOOLONG;
    if (from.node instanceof Map && isBelow(from.node, to.parent)) return ERRNO.INVAL;
    if (to.node !== undefined) {
      if (to.node instanceof Map && !(from.node instanceof Map)) return ERRNO.ISDIR;
      const errno = this.remove(to, from.node instanceof Map ? 'directory' : 'file');
      if (errno !== ERRNO.SUCCESS) return errno;
    }
    from.parent.delete(from.name);
    to.parent.set(to.name, from.node);
    if (from.node instanceof Map) for (const [, file] of filesBelow(from.node)) file.isWritten = true;
    else if (typeof from.node === 'object') from.node.isWritten = true;
    return ERRNO.SUCCESS;
  }

  /** Sets the size of a file; new bytes are zero. */
  resize(file: FileNode, size: number): number {
    if (!this.makeRoom(file, size)) return ERRNO.NOSPC;
    file.isWritten = true;
    file.blocks!.length = Math.ceil(size / BLOCK_BYTES);
    file.blocks!.at(-1)?.fill(0, size % BLOCK_BYTES || BLOCK_BYTES);
    file.size = size;
    this.recharge(file);
    return ERRNO.SUCCESS;
  }

  /** Writes at a position, also beyond the end. */
  write(file: FileNode, at: number, bytes: Uint8Array): number {
    if (!this.makeRoom(file, at + bytes.length)) return ERRNO.NOSPC;
    file.isWritten = true;
    for (let done = 0; done < bytes.length;) {
      const offset = (at + done) % BLOCK_BYTES;
      const part = bytes.subarray(done, done + BLOCK_BYTES - offset);
      file.blocks![Math.floor((at + done) / BLOCK_BYTES)]!.set(part, offset);
      done += part.length;
    }
    file.size = Math.max(file.size, at + bytes.length);
    return ERRNO.SUCCESS;
  }

  /** Gives the bytes of a file back that has neither a name nor a descriptor. */
  closed(file: FileNode): void {
    if (!file.isRemoved || file.opens) return;
    file.bytes = new Uint8Array(0);
    file.blocks = [];
    this.recharge(file);
  }

  /** Blocks for `size` bytes; false if the run may not have so many. The content of a file of the caller moves to blocks. */
  private makeRoom(file: FileNode, size: number): boolean {
    const { blocks, bytes } = file;
    const whole = Math.max(size, blocks ? 0 : file.size);
    const count = Math.ceil(whole / BLOCK_BYTES);
    const last = Math.max(LEAST_BYTES, 2 ** Math.ceil(Math.log2(whole - (count - 1) * BLOCK_BYTES)));
    const wanted = count === 0 ? 0 : (count - 1) * BLOCK_BYTES + last;
    const had = file.charged ?? 0;
    if (blocks && wanted <= had) return true;
    if (!Number.isSafeInteger(whole) || !this.tryCharge(wanted - had)) return false;
    file.charged = wanted;
    const grown = (file.blocks = blocks ?? []);
    for (let at = Math.max(0, grown.length - 1); at < count; at += 1) {
      const block = new Uint8Array(at === count - 1 ? last : BLOCK_BYTES);
      block.set(grown[at] ?? []);
      grown[at] = block;
    }
    if (!blocks)
      for (let at = 0; at < count; at += 1)
        grown[at]!.set(bytes.subarray(at * BLOCK_BYTES, at * BLOCK_BYTES + grown[at]!.length));
    return true;
  }

  /** Corrects the charge of a file that became smaller. */
  private recharge(file: FileNode): void {
    const charged = (file.blocks ?? []).reduce((sum, { length }) => sum + length, 0);
    this.charge(charged - (file.charged ?? 0));
    file.charged = charged;
  }

  private tryCharge(bytes: number): boolean {
    if (this.charge(bytes)) return true;
    this.charge(-bytes);
    return false;
  }
}

function isBelow(directory: Directory, wanted: Directory): boolean {
  if (directory === wanted) return true;
  for (const node of directory.values()) if (node instanceof Map && isBelow(node, wanted)) return true;
  return false;
}
