import { redact } from '@toolfleet/telemetry';
import type { ConfigFault, ConfigTable, ServiceConfig, LoadedConfig } from './define-config.js';
import type { Field } from './field.js';

/** One key in the documentation. */
interface ConfigKeyDoc {
  key: string;
  kind: string;
  /** Bounds and choices in words. */
  rule?: string;
  required: boolean;
  /** Default as text; unset for secrets. */
  default?: string;
  help: string;
  /** True for keys of every service. */
  shared: boolean;
}

/** Every key of a service, for `--help` and docs/configuration.md. */
export function documentConfig(config: ServiceConfig): ConfigKeyDoc[] {
  const own = new Set(config.ownKeys);
  const keys = [...config.ownKeys, ...Object.keys(config.table).filter((key) => !own.has(key))];
  return keys.map((key) => {
    const field = config.table[key] as Field<unknown>;
    return {
      key,
      kind: field.kind,
      rule: field.rule,
      required: field.default === undefined && !field.optional,
      default: field.default === undefined || field.kind === 'secret' ? undefined : show(field.default),
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
    'Configuration is read from the environment. If it is invalid, every fault is printed and the exit code is 78.',
    '',
    ...lines,
    '',
  ].join('\n');
}

/** The settings for the log, by key: of secrets only the source, URLs without passwords. */
export function describeSettings<T extends ConfigTable>(
  config: ServiceConfig<T>,
  loaded: LoadedConfig<T>,
): Record<string, string> {
  const shown: Record<string, string> = {};
  for (const [key, field] of Object.entries(config.table) as [string, Field<unknown>][]) {
    const value = (loaded.settings as Record<string, unknown>)[key];
    if (value === undefined) continue;
    shown[key] = field.kind === 'secret' ? `(secret from ${loaded.sources[key]})` : maskedValue(field, value);
  }
  return shown;
}

/** A value as text, with secrets and passwords in URLs masked. */
export function maskedValue(field: Field<unknown>, value: unknown): string {
  return field.kind === 'secret' ? '(secret)' : redact(withoutPassword(show(value)));
}

/** Longest value that a fault repeats. */
const MAX_SHOWN = 120;

/** A fault in one line: key, rule, value and remedy. */
export function faultLine({ key, message, value, remedy }: ConfigFault): string {
  const shown = value === undefined || message.includes(`"${value}"`) ? '' : ` (it is "${cut(value)}")`;
  return `${key} ${message}${shown}${remedy === undefined ? '' : `; ${remedy}`}`;
}

const cut = (value: string): string => (value.length > MAX_SHOWN ? `${value.slice(0, MAX_SHOWN)}…` : value);
const show = (value: unknown): string => (Array.isArray(value) ? value.join(',') : String(value));
const withoutPassword = (value: string): string => value.replace(/(:\/\/[^/?#@:]*):[^/?#@]*@/g, '$1:[redacted]@');
