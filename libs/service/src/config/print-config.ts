import { redact } from '@toolfleet/telemetry';
import type { ConfigFault, ConfigTable, ServiceConfig } from './define-config.js';
import type { LoadedConfig } from './load-config.js';
import type { Field } from './field.js';

/** One key as documentation shows it. */
export interface ConfigKeyDoc {
  key: string;
  kind: string;
  /** Bounds and choices in words. */
  rule?: string;
  required: boolean;
  /** Default as text; never present for secrets. */
  default?: string;
  help: string;
  /** True for keys every service has. */
  shared: boolean;
}

/** Every key of a service: what `--help` prints and docs/configuration.md is generated from. */
export function documentConfig(config: ServiceConfig): ConfigKeyDoc[] {
  const own = new Set(config.ownKeys);
  const keys = [...config.ownKeys, ...Object.keys(config.table).filter((key) => !own.has(key))];
  return keys.map((key) => {
    const field = config.table[key] as Field<unknown>;
    return {
      key,
      kind: field.kind,
      ...(field.rule ? { rule: field.rule } : {}),
      required: field.default === undefined && !field.optional,
      ...(field.default === undefined || field.kind === 'secret' ? {} : { default: show(field.default) }),
      help: field.help,
      shared: !own.has(key),
    };
  });
}

/** Text of `--help`. */
export function helpText(config: ServiceConfig): string {
  const lines = documentConfig(config).map((row) => {
    const form = row.kind === 'secret' ? `${row.key} or ${row.key}_FILE` : row.key;
    const facts = [row.kind, row.rule, row.required ? 'required' : `default ${row.default ?? 'unset'}`];
    return `  ${form}\n      ${row.help}\n      ${facts.filter(Boolean).join('; ')}`;
  });
  return [
    `toolfleet ${config.service}`,
    '',
    'Configuration is read from the environment. Exit code 78 means that it is wrong; every fault is named.',
    '',
    ...lines,
    '',
  ].join('\n');
}

/** The settings as one record for the log: secrets appear as their source only, passwords in URLs are removed. */
export function describeSettings<T extends ConfigTable>(
  config: ServiceConfig<T>,
  loaded: LoadedConfig<T>,
): Record<string, string> {
  const shown: Record<string, string> = {};
  for (const [key, field] of Object.entries(config.table) as [string, Field<unknown>][]) {
    const value = (loaded.settings as Record<string, unknown>)[key];
    if (value === undefined) continue;
    shown[key] = field.kind === 'secret' ? `(secret from ${loaded.sources[key]})` : shownValue(field, value);
  }
  return shown;
}

/** A value as it may be shown: never a secret, no password of a URL. */
export function shownValue(field: Field<unknown>, value: unknown): string {
  return field.kind === 'secret' ? '(secret)' : redact(withoutPassword(show(value)));
}

/** Longest value a fault repeats. */
const MAX_SHOWN = 120;

/** A fault in one line: variable, value, rule and remedy. */
export function faultLine({ key, message, value, remedy }: ConfigFault): string {
  const shown = value === undefined || message.includes(`"${value}"`) ? '' : ` (it is "${cut(value)}")`;
  return `${key} ${message}${shown}${remedy === undefined ? '' : `; ${remedy}`}`;
}

const cut = (value: string): string => (value.length > MAX_SHOWN ? `${value.slice(0, MAX_SHOWN)}…` : value);
const show = (value: unknown): string => (Array.isArray(value) ? value.join(',') : String(value));
const withoutPassword = (value: string): string => value.replace(/(:\/\/[^/?#@:]*):[^/?#@]*@/g, '$1:[redacted]@');
