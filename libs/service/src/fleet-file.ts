import { readFileSync, statSync } from 'node:fs';
import type { CancelTimer } from '@toolfleet/resilience';
import { join } from 'node:path';
import { isJsonObject, type JsonObject } from '@toolfleet/contracts';
import { CORE_SCHEMA, load, Type, YAMLException } from 'js-yaml';
import type { ConfigTable, SettingsOf } from './config/define-config.js';
import { path } from './config/field.js';
import { FatalStartupError, oneLine, type LifecycleComponent, type ServiceHost } from './lifecycle.js';

/** Keys that name the configuration file; spread into the table of a service that reads it. */
export const FLEET_FILE_KEYS = {
  TOOLFLEET_CONFIG: path({ optional: true, help: 'The configuration file of the fleet (YAML)' }),
  SHANNON_CONFIG_PATH: path({ optional: true, help: 'Older name of TOOLFLEET_CONFIG' }),
  CONFIG_PATH: path({ optional: true, help: 'Older name of TOOLFLEET_CONFIG; a directory means its shannon.yaml' }),
} satisfies ConfigTable;

/** JSON values and merge keys (`<<`); dates stay strings. */
const SCHEMA = CORE_SCHEMA.extend({
  implicit: [
    new Type('tag:yaml.org,2002:merge', { kind: 'scalar', resolve: (data: unknown) => data === '<<' || data === null }),
  ],
});
const MAX_BYTES = 4 * 1024 * 1024;
const RELOAD_EVERY_MS = 1_000;

/** Path of the configuration file, or undefined when none is configured. */
function fleetFilePath(settings: SettingsOf<typeof FLEET_FILE_KEYS>): string | undefined {
  const named = settings.TOOLFLEET_CONFIG ?? settings.SHANNON_CONFIG_PATH ?? settings.CONFIG_PATH;
  if (named === undefined) return undefined;
  return statSync(named, { throwIfNoEntry: false })?.isDirectory() ? join(named, 'shannon.yaml') : named;
}

/** The configured file; an empty configuration when none is configured. @throws FatalStartupError as `readFleetFile` */
export function loadFleetFile(settings: SettingsOf<typeof FLEET_FILE_KEYS>): JsonObject {
  const file = fleetFilePath(settings);
  return file === undefined ? {} : readFleetFile(file);
}

/**
 * Reads a configuration file (YAML, which includes JSON). `${VAR}` is left as written; the executor that connects expands it. An empty
 * file is an empty configuration.
 * @throws FatalStartupError naming the file and, for YAML errors, the line
 */
export function readFleetFile(file: string): JsonObject {
  return parseFleetFile(file, readText(file));
}

function readText(file: string): string {
  let source: string;
  try {
    source = readFileSync(file, 'utf8');
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code ?? 'error';
    throw new FatalStartupError(`configuration file ${file} cannot be read: ${code}`);
  }
  if (source.length > MAX_BYTES)
    throw new FatalStartupError(`configuration file ${file} is larger than ${MAX_BYTES} bytes`);
  return source;
}

function parseFleetFile(file: string, source: string): JsonObject {
  let document: unknown;
  try {
    document = load(source, { filename: file, schema: SCHEMA });
  } catch (error) {
    const reason = error instanceof YAMLException ? error.message.split('\n')[0] : String(error);
    throw new FatalStartupError(`configuration file ${file} is not valid YAML: ${reason}`);
  }
  if (document === undefined || document === null) return {};
  if (!isJsonObject(document))
    throw new FatalStartupError(`configuration file ${file} must be a mapping at its top level`);
  return document;
}

/**
 * A component that reads the configuration file again every second and passes a changed one to `apply`. A file that cannot be
 * read or parsed, or that `apply` rejects by throwing, is reported as a fault, and what was in force stays. A changed file must
 * read the same twice in a row, because it may still be being written. Polling follows files that are replaced through symlinks,
 * as Kubernetes does it.
 */
export function fleetFileReloader(
  settings: SettingsOf<typeof FLEET_FILE_KEYS>,
  { clock, logger, faults }: Pick<ServiceHost, 'clock' | 'logger' | 'faults'>,
  apply: (file: JsonObject) => void,
): LifecycleComponent {
  const name = 'configuration file';
  const file = fleetFilePath(settings);
  if (file === undefined) return { name };
  /** Text of the file that was read last, and of the one in force; undefined once a change was refused. */
  let candidate: string | undefined;
  let applied: string | undefined;
  let refusal = '';
  let cancel: CancelTimer | undefined;

  const reload = (): void => {
    try {
      const text = readText(file);
      const isSettled = text === candidate;
      candidate = text;
      if (!isSettled || text === applied) return;
      apply(parseFleetFile(file, text));
      applied = text;
      refusal = '';
      faults.set(name, []);
      logger.info({ file }, 'the configuration file was read');
    } catch (error) {
      const message = `a change is ignored, the previous content stays in force: ${oneLine(error)}`;
      if (message !== refusal) logger.error({ file }, message);
      refusal = message;
      applied = undefined;
      faults.set(name, [message]);
    }
  };
  const schedule = (): void => {
    cancel = clock.after(RELOAD_EVERY_MS, () => {
      reload();
      schedule();
    });
  };
  return {
    name,
    start: async () => schedule(),
    stop: async () => cancel?.(),
  };
}
