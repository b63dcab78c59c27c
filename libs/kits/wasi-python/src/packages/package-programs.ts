import { readFileSync } from 'node:fs';
import type { RunRequest } from '../python/guest-protocol.js';
import type { Directory } from '../wasi/file-tree.js';
import { packageTree, type PackageWheel, type PythonPackage } from './python-package.js';

const CHECK = readFileSync(new URL('../../python/check_packages.py', import.meta.url), 'utf8');
const COMPILE = readFileSync(new URL('../../python/compile_packages.py', import.meta.url), 'utf8');

/**
 * Adds the bytecode of packages that have none: importing sympy from source takes a run longer than its time. The interpreter of the
 * sandbox compiles it.
 * @param run runs code with a package at `/packages` and returns the files that it wrote below `/data`
 */
export function compilePackages(
  packages: readonly PackageWheel[],
  run: (code: string, tree: Directory) => [path: string, bytes: Uint8Array][],
): PackageWheel[] {
  return packages.map((one) => ({ ...one, bytecode: one.bytecode ?? run(COMPILE, packageTree(one)) }));
}

/**
 * A program that checks packages: their metadata admit the interpreter, and everything that they require is among them. Its value is a
 * list of faults, one sentence each that names the package.
 */
export function packageCheck(packages: readonly PythonPackage[]): Pick<RunRequest, 'code' | 'args'> {
  const args = packages.map(({ name, version, metadata, tenants }) => ({
    name,
    version,
    metadata,
    tenants: tenants ? [...tenants] : null,
  }));
  return { code: CHECK, args };
}
