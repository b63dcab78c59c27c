/** The guest's own table of descriptors. Its numbers mean nothing outside: the host's files are not in it. */
import { ERRNO, FILETYPE } from './abi.js';
import type { Stream } from './captured-output.js';
import { type Directory, RESULT_DEVICE, type TreeNode } from './memory-tree.js';

export type Descriptor =
  | { kind: 'stdin' }
  | { kind: 'output'; stream: Stream }
  | { kind: 'result' }
  | { kind: 'file'; bytes: Uint8Array; at: number }
  | { kind: 'directory'; node: Directory; preopen?: string };

const MAX_DESCRIPTORS = 64;
/** Kept for the result device, so that a run that used up its files still answers. */
const RESULT_DESCRIPTORS = 8;

export class DescriptorTable {
  private readonly table: Map<number, Descriptor>;
  private readonly firstFree: number;

  constructor(preopens: Readonly<Record<string, Directory>>) {
    this.table = new Map<number, Descriptor>([
      [0, { kind: 'stdin' }],
      [1, { kind: 'output', stream: 1 }],
      [2, { kind: 'output', stream: 2 }],
    ]);
    const device: Directory = new Map([['result', RESULT_DEVICE]]);
    // Without a gap from 3 on: libc scans until the first BADF.
    for (const [path, node] of Object.entries({ '/dev': device, ...preopens })) {
      this.table.set(this.table.size, { kind: 'directory', node, preopen: path });
    }
    this.firstFree = this.table.size;
  }

  get(fd: number): Descriptor | undefined {
    return this.table.get(fd);
  }

  directory(fd: number): Directory | undefined {
    const found = this.table.get(fd);
    return found?.kind === 'directory' ? found.node : undefined;
  }

  close(fd: number): number {
    return this.table.delete(fd) ? ERRNO.SUCCESS : ERRNO.BADF;
  }

  /** The new number, or undefined when the table is full. */
  open(descriptor: Descriptor): number | undefined {
    const cap = descriptor.kind === 'result' ? MAX_DESCRIPTORS + RESULT_DESCRIPTORS : MAX_DESCRIPTORS;
    if (this.table.size >= cap) return undefined;
    let fd = this.firstFree;
    while (this.table.has(fd)) fd += 1;
    this.table.set(fd, descriptor);
    return fd;
  }

  /** Replaces the content of a preopened directory. */
  mount(path: string, node: Directory): void {
    for (const found of this.table.values()) {
      if (found.kind === 'directory' && found.preopen === path) found.node = node;
    }
  }

  /** The node at a path below a directory, or an errno. `..` cannot leave the preopen; there are no links at all. */
  resolve(fd: number, path: string): TreeNode | number {
    const start = this.directory(fd);
    if (!start) return ERRNO.BADF;
    let node: TreeNode = start;
    const above: TreeNode[] = [];
    for (const part of path.split('/')) {
      if (part === '' || part === '.') continue;
      if (part === '..') {
        const up = above.pop();
        if (up === undefined) return ERRNO.NOTCAPABLE;
        node = up;
        continue;
      }
      if (!(node instanceof Map)) return ERRNO.NOTDIR;
      const child: TreeNode | undefined = node.get(part);
      if (child === undefined) return ERRNO.NOENT;
      above.push(node);
      node = child;
    }
    return node;
  }
}

/** File type of a node, in the numbers of WASI. */
export function typeOf(node: TreeNode): number {
  if (node === RESULT_DEVICE) return FILETYPE.CHARACTER_DEVICE;
  return node instanceof Map ? FILETYPE.DIRECTORY : FILETYPE.REGULAR_FILE;
}
