import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { FileNode } from './file-tree.js';
import { libraryTree, loadInterpreter, namedInterpreter } from './interpreter.js';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'toolfleet-library-'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

describe('the interpreter', () => {
  it('is the packaged one with its pinned digest by default', () => {
    const packaged = namedInterpreter();
    expect(packaged.sha256).toMatch(/^[0-9a-f]{64}$/);
    expect(() => loadInterpreter({ ...packaged, sha256: '0'.repeat(64), tableLimit: 1 })).toThrow(/not the pinned one/);
    expect(namedInterpreter('/a.wasm')).toEqual({ wasmPath: '/a.wasm' });
    expect(namedInterpreter('/a.wasm', '/lib')).toEqual({ wasmPath: '/a.wasm', stdlibPath: '/lib' });
  });

  it('is refused if its file is not a module', () => {
    const wasmPath = join(folder, 'python.wasm');
    writeFileSync(wasmPath, 'not wasm at all');
    expect(() => loadInterpreter({ wasmPath, tableLimit: 10_000 })).toThrow(/not a WebAssembly module/);
  });
});

describe('libraryTree', () => {
  it('contains files and bytecode where the guest expects them, and no links', () => {
    mkdirSync(join(folder, 'python3.11/json/__pycache__'), { recursive: true });
    mkdirSync(join(folder, 'elsewhere'));
    writeFileSync(join(folder, 'python3.11/os.py'), 'import sys');
    writeFileSync(join(folder, 'python3.11/json/__pycache__/a.cpython-311.pyc'), 'x');
    symlinkSync('/etc/passwd', join(folder, 'python3.11/passwd.py'));
    const tree = libraryTree(folder);
    const at = (...path: string[]) =>
      path.reduce<unknown>((node, name) => (node as Map<string, unknown>).get(name), tree);
    const library = at('usr', 'local', 'lib') as Map<string, Map<string, unknown>>;
    expect([...library.keys()]).toEqual(['python3.11']);
    expect([...library.get('python3.11')!.keys()].toSorted()).toEqual(['json', 'os.py']);
    const { bytes } = library.get('python3.11')!.get('os.py') as FileNode;
    expect(Buffer.from(bytes).toString()).toBe('import sys');
    expect(at('usr', 'local', 'lib', 'python3.11', 'json', '__pycache__')).toHaveProperty('size', 1);
  });

  it.each([
    ['is missing', 'no/such/folder'],
    ['has no library in it', '.'],
    ['is the library itself', 'python3.11'],
  ])('is refused when its folder %s', (_, path) => {
    mkdirSync(join(folder, 'python3.11/json'), { recursive: true });
    expect(() => libraryTree(join(folder, path))).toThrow(/holds no standard library: a folder python3\.x/);
  });
});
