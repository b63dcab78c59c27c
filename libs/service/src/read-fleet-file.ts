import { readFileSync } from 'node:fs';
import { isJsonObject, type JsonObject } from '@toolfleet/contracts';
import { CORE_SCHEMA, load, Type, YAMLException } from 'js-yaml';
import { FatalStartupError } from './service-part.js';

/** JSON's values and merge keys (`<<`); a date stays the text it was written as. */
const SCHEMA = CORE_SCHEMA.extend({
  implicit: [
    new Type('tag:yaml.org,2002:merge', { kind: 'scalar', resolve: (data: unknown) => data === '<<' || data === null }),
  ],
});
/** Larger files are a mistake, not a configuration. */
const MAX_BYTES = 4 * 1024 * 1024;

/**
 * Reads the one configuration file (YAML, JSON is YAML too). `${VAR}` stays as written: only the executor that dials
 * expands it. Throws `FatalStartupError` with the place of the fault. An empty file is an empty configuration.
 */
export function readFleetFile(file: string): JsonObject {
  let source: string;
  try {
    source = readFileSync(file, 'utf8');
  } catch (error) {
    throw new FatalStartupError(
      `configuration file ${file} cannot be read: ${(error as NodeJS.ErrnoException).code ?? 'error'}`,
    );
  }
  if (source.length > MAX_BYTES)
    throw new FatalStartupError(`configuration file ${file} is larger than ${MAX_BYTES} bytes`);
  let document: unknown;
  try {
    document = load(source, { filename: file, schema: SCHEMA });
  } catch (error) {
    const reason = error instanceof YAMLException ? error.message.split('\n')[0] : String(error);
    throw new FatalStartupError(`configuration file ${file} is not valid YAML: ${reason}`);
  }
  if (document === undefined || document === null) return {};
  if (!isJsonObject(document)) throw new FatalStartupError(`configuration file ${file} must be a mapping at its top`);
  return document;
}
