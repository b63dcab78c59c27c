import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { loadFleetFile } from '@toolfleet/service';
import { isPure, PackageError, readPackage, wheelTags, type PythonPackage } from '@toolfleet/wasi-python';

/** Section `python_packages` of the configuration file. */
type PackageSection = ReturnType<typeof loadFleetFile>['python_packages'];

/**
 * Reads the wheels of the configured packages from their folders. Their requirements are checked when the interpreter is known.
 * @throws PackageError that names the first package that cannot be used: no wheel, native code, another digest or a damaged file
 */
export function readPackages(section: PackageSection): PythonPackage[] {
  return Object.entries(section).map(([name, { version, sha256, folder, tenants }]) => {
    const wheel = readWheel(name, version, folder);
    const digest = createHash('sha256').update(wheel).digest('hex');
    if (digest !== sha256)
      throw new PackageError(`${name} ${version} has SHA-256 ${digest}; python_packages has ${sha256}`);
    return { ...readPackage(name, version, wheel), tenants };
  });
}

function readWheel(name: string, version: string, folder: string): Buffer {
  const refuse = (message: string): never => {
    throw new PackageError(`${name} ${version} ${message}`);
  };
  let files: string[];
  try {
    files = readdirSync(folder);
  } catch (error) {
    return refuse(`cannot be read: ${error instanceof Error ? error.message : String(error)}`);
  }
  const found = files.flatMap((file) => {
    const tags = wheelTags(file, name, version);
    return tags === undefined ? [] : [{ file, tags }];
  });
  const pure = found.find(({ tags }) => isPure(tags));
  if (pure) return readFileSync(join(folder, pure.file));
  return found[0]
    ? refuse(`has native code (${found[0].tags}), which the sandbox cannot load`)
    : refuse(`has no wheel in ${folder}`);
}

/** Names of the packages that programs of a tenant can import. */
export function packagesOf(packages: readonly PythonPackage[], tenantId: string): string[] {
  return packages.filter(({ tenants }) => tenants?.includes(tenantId) ?? true).map(({ name }) => name);
}
