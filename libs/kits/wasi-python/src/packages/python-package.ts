/** Packages that programs can import: wheels (PEP 427) of pure Python, with everything that they require. */
import { filesBelow, type Directory, type FileNode } from '../wasi/file-tree.js';
import { addFiles, wheelTree } from '../wasi/wheel.js';

/** A wheel as the sandbox gets it. */
export interface PackageWheel {
  /** Normalized name. */
  name: string;
  wheel: Uint8Array;
  /** Bytecode by path, as a sandbox host compiled it; absent before. */
  bytecode?: [path: string, bytes: Uint8Array][];
}

/** A wheel with its metadata. */
export interface PythonPackage extends PackageWheel {
  version: string;
  /** Header fields of its METADATA. */
  metadata: string;
  /** Tenants that may import it; absent for all. */
  tenants?: readonly string[];
}

/** A package that cannot be used; the message names it. */
export class PackageError extends Error {}

/** The name by which indexes know a package (PEP 503). */
const normalizedName = (name: string): string => name.toLowerCase().replaceAll(/[-_.]+/g, '-');

/** Tags of wheels for every interpreter of Python 3, also in a set such as `py2.py3`. */
const PURE_TAG = /^(?:\w+\.)*py3\d*(?:\.\w+)*-none-any$/;
const NATIVE_FILE = /\.(?:so|pyd|dylib|dll)(?:\.[\d.]+)?$/;

/** Tags `python-abi-platform` of the file name of a wheel; undefined if it is not the wheel of this name and version. */
export function wheelTags(file: string, name: string, version: string): string | undefined {
  const parts = file.endsWith('.whl') ? file.slice(0, -'.whl'.length).split('-') : [];
  if (parts.length < 5 || normalizedName(parts[0]!) !== name || parts[1] !== version) return undefined;
  return parts.slice(-3).join('-');
}

/** Whether the tags of a wheel name pure Python. */
export const isPure = (tags: string): boolean => PURE_TAG.test(tags);

/**
 * Reads the metadata of a wheel.
 * @throws PackageError if it is damaged, has native code, or is not the package of this name and version
 */
export function readPackage(name: string, version: string, wheel: Uint8Array): PythonPackage {
  const refuse = (message: string): never => {
    throw new PackageError(`${name} ${version} ${message}`);
  };
  let tree: Directory;
  try {
    tree = wheelTree(Buffer.from(wheel.buffer, wheel.byteOffset, wheel.byteLength));
  } catch (error) {
    return refuse(`is not a wheel that can be read: ${error instanceof Error ? error.message : String(error)}`);
  }
  const facts = (file: string): string => {
    const [, info] = [...tree].find(([folder]) => folder.endsWith('.dist-info')) ?? [];
    const found = info instanceof Map ? info.get(file) : undefined;
    return typeof found === 'object' && 'bytes' in found ? headOf(found) : refuse(`has no ${file}`);
  };
  const [about, build] = [facts('METADATA'), facts('WHEEL')];
  const native = [...filesBelow(tree)].map(([path]) => path).find((path) => NATIVE_FILE.test(path));
  const tags = fields(build, 'Tag');
  if (native !== undefined || !tags.some(isPure))
    refuse(`has native code (${native ?? tags.join(', ')}), which the sandbox cannot load`);
  const [ownName = '', ownVersion = ''] = [fields(about, 'Name')[0], fields(about, 'Version')[0]];
  if (normalizedName(ownName) !== name || ownVersion !== version) refuse(`is the wheel of ${ownName} ${ownVersion}`);
  return { name, version, wheel, metadata: about };
}

/** The header fields of a file of metadata: everything before the first empty line. */
const headOf = ({ bytes, size }: FileNode): string =>
  Buffer.from(bytes.subarray(0, size)).toString().replaceAll('\r\n', '\n').split('\n\n', 1)[0]!;

const fields = (head: string, name: string): string[] =>
  head
    .split(/\n(?![ \t])/)
    .filter((line) => line.toLowerCase().startsWith(`${name.toLowerCase()}:`))
    .map((line) => line.slice(name.length + 1).trim());

/** The files of a package as programs import them: the root of the wheel and its `purelib`, with bytecode next to the sources. */
export function packageTree({ wheel, bytecode = [] }: PackageWheel): Directory {
  const root = wheelTree(Buffer.from(wheel.buffer, wheel.byteOffset, wheel.byteLength));
  for (const [name, data] of [...root].filter(([folder]) => folder.endsWith('.data'))) {
    root.delete(name);
    const library = data instanceof Map ? data.get('purelib') : undefined;
    if (library instanceof Map) merge(root, library);
  }
  addFiles(root, bytecode);
  return root;
}

/** The packages of a run in one folder. Folders that several of them have are joined; of two files with one path the first stays. */
export function joinedTree(trees: readonly Directory[]): Directory {
  const root: Directory = new Map();
  for (const tree of trees) merge(root, tree, true);
  return root;
}

/** Adds the entries of `tree`. With `copies`, folders that both have are new ones: the trees are shared by other runs. */
function merge(target: Directory, tree: Directory, copies = false): void {
  for (const [name, node] of tree) {
    const own = target.get(name);
    if (own === undefined) target.set(name, node);
    else if (own instanceof Map && node instanceof Map) {
      const folder = copies ? new Map(own) : own;
      target.set(name, folder);
      merge(folder, node, copies);
    }
  }
}
