import { readFileSync } from 'node:fs';
import { registerSecret } from '@toolfleet/telemetry';
import type { ConfigFault, ConfigTable, ServiceConfig, SettingsOf } from './define-config.js';
import { FieldFault, type Field } from './field.js';
import { faultLine, shownValue } from './print-config.js';

/** Environment as a plain record; `process.env` fits. */
export type Environment = Readonly<Record<string, string | undefined>>;

/** Where a value came from. */
export type SettingSource = 'default' | 'environment' | 'file' | 'unset';

/** Checked settings and their origins. */
export interface LoadedConfig<T extends ConfigTable> {
  settings: SettingsOf<T>;
  sources: Readonly<Record<string, SettingSource>>;
  /** Files of secrets given as `KEY_FILE`, by key. */
  secretFiles: Readonly<Record<string, string>>;
}

/** Exit code of a bad configuration (`EX_CONFIG` of sysexits.h). */
export const EXIT_CONFIG = 78;

/** Every fault of a configuration at once. */
export class ConfigError extends Error {
  constructor(
    readonly service: string,
    readonly faults: readonly ConfigFault[],
  ) {
    super(`${service}: ${faults.map(faultLine).join('; ')}`);
    this.name = 'ConfigError';
  }
}

/** The environment of this process: the only place in the fleet that reads it. */
export function processEnvironment(): Environment {
  return process.env;
}

/**
 * Variables of a family whose members cannot be listed in a table, such as `MCP_COST_<NAME>`: what follows the prefix, and
 * the value. Empty values count as unset.
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
 * Reads and checks a service's configuration. Secrets come from `KEY` or the file `KEY_FILE` (both set is a fault) and are
 * registered for redaction before anything is logged. Throws `ConfigError` naming every fault.
 */
export function loadConfig<T extends ConfigTable>(
  config: ServiceConfig<T>,
  environment: Environment = processEnvironment(),
): LoadedConfig<T> {
  const faults: ConfigFault[] = [];
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
      faults.push({ key, message: error.message, value: shownRaw(field, environment[key]) });
    }
  }
  const checked = settings as SettingsOf<T>;
  if (faults.length === 0) {
    for (const fault of config.check?.(checked) ?? []) {
      const field = config.table[fault.key] as Field<unknown> | undefined;
      faults.push({ ...fault, value: fault.value ?? (field && shownRaw(field, environment[fault.key])) });
    }
  }
  if (faults.length > 0) throw new ConfigError(config.service, faults);
  return { settings: checked, sources, secretFiles };
}

/** Reads a secret file as `KEY_FILE` means it: its text without the final line break. */
export function readSecretFile(file: string): string {
  return readFileSync(file, 'utf8').replace(/\r?\n$/, '');
}

/** What is set, as a fault may show it. */
function shownRaw(field: Field<unknown>, raw: string | undefined): string | undefined {
  return raw === undefined || raw === '' ? undefined : shownValue(field, raw);
}

interface Found {
  raw: string | undefined;
  file?: string;
}

const given = (value: string | undefined): value is string => value !== undefined && value !== '';

function readPlain(key: string, environment: Environment): Found {
  const raw = environment[key];
  return { raw: given(raw) ? raw : undefined };
}

function readSecret(key: string, environment: Environment): Found {
  const raw = environment[key];
  const file = environment[`${key}_FILE`];
  if (given(raw) && given(file)) throw new FieldFault(`and ${key}_FILE are both set; keep one`);
  if (!given(file)) return { raw: given(raw) ? raw : undefined };
  try {
    const content = readSecretFile(file);
    if (content === '') throw new FieldFault(`: the file of ${key}_FILE is empty`);
    return { raw: content, file };
  } catch (error) {
    if (error instanceof FieldFault) throw error;
    throw new FieldFault(`: cannot read the file of ${key}_FILE (${(error as NodeJS.ErrnoException).code ?? 'error'})`);
  }
}

/** A password inside a URL (`redis://:pw@host`) is a secret too. */
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
