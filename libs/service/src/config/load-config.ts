import { readFileSync } from 'node:fs';
import { registerSecret } from '@toolfleet/telemetry';
import type {
  ConfigFault,
  ConfigTable,
  ServiceConfig,
  SettingsOf,
  SettingSource,
  LoadedConfig,
} from './define-config.js';
import { FieldFault, type Field } from './field.js';
import { faultLine, maskedValue } from './print-config.js';

/** Environment variables; `process.env` fits. */
export type Environment = Readonly<Record<string, string | undefined>>;

/** Exit code of an invalid configuration (`EX_CONFIG` of sysexits.h). */
export const EXIT_CONFIG = 78;

/** All faults of a configuration. */
export class ConfigError extends Error {
  constructor(
    readonly service: string,
    readonly faults: readonly ConfigFault[],
  ) {
    super(`${service}: ${faults.map(faultLine).join('; ')}`);
    this.name = 'ConfigError';
  }
}

/** The environment of this process; no other code of the fleet reads it. */
export function processEnvironment(): Environment {
  return process.env;
}

/** Names of the variables that configurations of this process have read. */
const settingNames = new Set<string>();

/** The environment of this process without the settings of its services: what others put there, for programs that must not hold those. */
export function foreignEnvironment(
  environment: Environment = processEnvironment(),
): Record<string, string | undefined> {
  return Object.fromEntries(
    Object.entries(environment).filter(
      ([name]) => !settingNames.has(name) && !settingNames.has(name.replace(/_FILE$/, '')),
    ),
  );
}

/**
 * The values of a family of variables that cannot be listed in a table, such as `MCP_COST_<NAME>`, by what follows the prefix. Empty
 * values count as unset.
 */
export function environmentByPrefix(
  prefix: string,
  environment: Environment = processEnvironment(),
): ReadonlyMap<string, string> {
  const found = Object.entries(environment).flatMap(([key, value]): [string, string][] =>
    key.startsWith(prefix) && key.length > prefix.length && value ? [[key.slice(prefix.length), value]] : [],
  );
  return new Map(found);
}

/**
 * Reads and checks a service's configuration. Secrets come from `KEY` or the file `KEY_FILE` (setting both is a fault) and are
 * registered for redaction before anything is logged.
 * @throws ConfigError naming every fault
 */
export function loadConfig<T extends ConfigTable>(
  config: ServiceConfig<T>,
  environment: Environment = processEnvironment(),
): LoadedConfig<T> {
  const faults: ConfigFault[] = [];
  for (const name of Object.keys(config.table)) settingNames.add(name);
  const settings: Record<string, unknown> = {};
  const sources: Record<string, SettingSource> = {};
  const secretFiles: Record<string, string> = {};
  for (const [key, field] of Object.entries(config.table) as [string, Field<unknown>][]) {
    try {
      const found = field.kind === 'secret' ? readSecret(key, environment) : readPlain(key, environment);
      if (found.file) secretFiles[key] = found.file;
      if (found.raw === undefined) {
        if (field.default === undefined && !field.optional) {
          faults.push({ key, message: 'is required', remedy: `set it: ${field.help}` });
          continue;
        }
        settings[key] = field.default;
        sources[key] = field.default === undefined ? 'unset' : 'default';
      } else {
        if (field.kind === 'secret') registerSecret(found.raw);
        settings[key] = field.parse(found.raw);
        sources[key] = found.file ? 'file' : 'environment';
        if (field.kind === 'url') registerPasswords(found.raw);
      }
    } catch (error) {
      if (!(error instanceof FieldFault)) throw error;
      faults.push({ key, message: error.message, value: maskedRaw(field, environment[key]) });
    }
  }
  const checked = settings as SettingsOf<T>;
  if (faults.length === 0) {
    for (const fault of config.check?.(checked) ?? []) {
      const field = config.table[fault.key] as Field<unknown> | undefined;
      faults.push({ ...fault, value: fault.value ?? (field && maskedRaw(field, environment[fault.key])) });
    }
  }
  if (faults.length > 0) throw new ConfigError(config.service, faults);
  return { settings: checked, sources, secretFiles };
}

/** The text of a secret file (`KEY_FILE`) without the final line break. */
export function readSecretFile(file: string): string {
  return readFileSync(file, 'utf8').replace(/\r?\n$/, '');
}

/** The value in the environment, masked where it is secret. */
function maskedRaw(field: Field<unknown>, raw: string | undefined): string | undefined {
  return raw === undefined || raw === '' ? undefined : maskedValue(field, raw);
}

interface Found {
  raw: string | undefined;
  file?: string;
}

const isSet = (value: string | undefined): value is string => value !== undefined && value !== '';

function readPlain(key: string, environment: Environment): Found {
  const raw = environment[key];
  return { raw: isSet(raw) ? raw : undefined };
}

function readSecret(key: string, environment: Environment): Found {
  const raw = environment[key];
  const file = environment[`${key}_FILE`];
  if (isSet(raw) && isSet(file)) throw new FieldFault(`and ${key}_FILE are both set; keep one`);
  if (!isSet(file)) return { raw: isSet(raw) ? raw : undefined };
  try {
    const content = readSecretFile(file);
    if (content === '') throw new FieldFault(`: the file of ${key}_FILE is empty`);
    return { raw: content, file };
  } catch (error) {
    if (error instanceof FieldFault) throw error;
    throw new FieldFault(`: cannot read the file of ${key}_FILE (${(error as NodeJS.ErrnoException).code ?? 'error'})`);
  }
}

/** Registers passwords in URLs (`redis://:pw@host`) for redaction. */
function registerPasswords(raw: string): void {
  for (const part of raw.split(',')) {
    const password = /^(?:[a-z][a-z0-9+.-]*:\/\/)?[^/?#@]*?:([^/?#]*)@/i.exec(part.trim())?.[1];
    if (!password) continue;
    registerSecret(password);
    try {
      registerSecret(decodeURIComponent(password));
    } catch {
      // Not percent-encoded: the raw form is registered already.
    }
  }
}
