/**
 * The whole file system of a guest: nested Maps with bytes as leaves. What is not in the tree cannot be reached, and
 * nothing in it can be changed, because no import of the host writes to it.
 */
export type Directory = Map<string, TreeNode>;
/** `/dev/result`: the one node that may be written, a bounded buffer of the host, apart from the guest's stdout. */
export const RESULT_DEVICE = Symbol('/dev/result');
export type TreeNode = Directory | Uint8Array | typeof RESULT_DEVICE;

/** Longest path of a data file. */
const MAX_NAME = 255;

/** Content of a data file as a caller sends it: text, or bytes in base64. */
export type FileContent = string | { base64: string };

/**
 * Builds the tree of the data files of one call; `a/b.txt` makes a directory `a`.
 * Throws an Error that names the file when a name is not a plain relative path.
 */
export function treeOf(files: Readonly<Record<string, FileContent>>): Directory {
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
    if (directory.has(leaf)) throw new Error(`file name ${JSON.stringify(path)} is taken twice`);
    directory.set(leaf, bytesOf(content));
  }
  return root;
}

function bytesOf(content: FileContent): Uint8Array {
  return typeof content === 'string' ? new TextEncoder().encode(content) : Buffer.from(content.base64, 'base64');
}
