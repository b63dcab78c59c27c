import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { FleetFileError, faultLine, readText } from '@toolfleet/fleet-file';
import { CliError, EXIT } from '../cli-error.js';
import { parseDeclaration, type FleetFiles } from './declaration.js';

/** Policies of a folder are compiled together, as the gateway compiles them. */
const DATA_FILE = 'data.json';
/** An OpenAPI document that a source names. */
const DOCUMENT = /^(openapi|swagger):/m;

/**
 * Reads a declared fleet: a file, or every `*.yaml` and `*.yml` of a folder and the folders in it, without hidden ones and OpenAPI documents; and compiles
 * the Rego policies in them.
 * @returns the fleet, and how many policies there are
 * @throws CliError with every fault, each with its file and place
 */
export async function readDeclaredFleet(path: string): Promise<{ files: FleetFiles; policies: number }> {
  if (!existsSync(path)) throw new CliError(`${path} is neither a file nor a folder`, EXIT.usage);
  const all = statSync(path).isDirectory() ? filesBelow(path) : [path];
  const rules = all.filter((file) => file.endsWith('.rego'));
  const policies = new Map(rules.map((file) => [dirname(file), rules.filter((one) => dirname(one) === dirname(file))]));
  const texts = (all[0] === path ? all : all.filter((file) => /\.ya?ml$/.test(file)))
    .map(readText)
    .filter(({ text }) => !DOCUMENT.test(text));
  if (texts.length === 0) throw new CliError(`${path} contains no *.yaml or *.yml file`, EXIT.usage);
  const faults = await policyFaults(policies);
  try {
    const files = parseDeclaration(texts);
    if (faults.length === 0) return { files, policies: policies.size };
  } catch (error) {
    if (!(error instanceof FleetFileError)) throw error;
    faults.unshift(...error.faults.map((fault) => `${error.file}: ${faultLine(fault)}`));
  }
  throw new CliError(`nothing was changed:\n  ${faults.join('\n  ')}`, EXIT.usage);
}

function filesBelow(folder: string): string[] {
  return readdirSync(folder, { withFileTypes: true })
    .filter(({ name }) => !name.startsWith('.'))
    .flatMap((entry) => (entry.isDirectory() ? filesBelow(join(folder, entry.name)) : [join(folder, entry.name)]))
    .toSorted();
}

/** Faults of the policies by folder. The compiler is imported on demand, because it is large. */
async function policyFaults(policies: ReadonlyMap<string, readonly string[]>): Promise<string[]> {
  if (policies.size === 0) return [];
  const [{ RegoPolicy }, { SystemClock }] = await Promise.all([
    import('@toolfleet/policy'),
    import('@toolfleet/resilience'),
  ]);
  return [...policies].flatMap(([folder, rules]) => {
    const data = join(folder, DATA_FILE);
    const files = [...rules, ...(existsSync(data) ? [data] : [])];
    try {
      new RegoPolicy(
        files.map((file) => ({ name: basename(file), text: readFileSync(file, 'utf8') })),
        new SystemClock(),
      );
      return [];
    } catch (error) {
      return [`${folder}: ${(error as Error).message}`];
    }
  });
}
