import { accessSync, constants, statSync } from 'node:fs';

/**
 * The kinds of configuration values. A field parses the text of an environment variable into a typed value or throws a `FieldFault`. An
 * empty variable counts as unset, because compose files and Kubernetes pass empty strings for it.
 */

/** Kinds of values; `secret` values are never printed. */
type FieldKind = 'text' | 'url' | 'integer' | 'number' | 'boolean' | 'duration' | 'secret' | 'list' | 'one of' | 'path';

/** One row of a configuration table. */
export interface Field<T> {
  readonly kind: FieldKind;
  readonly help: string;
  readonly optional: boolean;
  /** Value when unset; absent when the field is required or optional. */
  readonly default?: T;
  /** Bounds and choices in words, for `--help`. */
  readonly rule?: string;
  /** Parses the text of the environment variable. @throws FieldFault */
  parse(raw: string): T;
}

/** Why a value is invalid. The message does not contain the value of a secret. */
export class FieldFault extends Error {}

interface Base<T> {
  /** Value when unset. Without it, and without `optional`, the key is required. */
  default?: T;
  /** When unset, the value is `undefined`. */
  optional?: boolean;
  /** One line for `--help` and docs/configuration.md. */
  help: string;
}
type ValueOf<T, O> = O extends { default: T } ? T : O extends { optional: true } ? T | undefined : T;

interface Bounds {
  min?: number;
  max?: number;
}

/** @param parse throws a FieldFault; its value is the field's, or undefined when an optional one is unset */
function make<T, O extends Base<T>>(kind: FieldKind, options: O, parse: (raw: string) => T, rule?: string) {
  const { help, optional = false, default: unset } = options;
  return { kind, help, optional, default: unset, rule, parse } as Field<unknown> as Field<ValueOf<T, O>>;
}

/** Any string. */
export function text<O extends Base<string>>(options: O): Field<ValueOf<string, O>> {
  return make<string, O>('text', options, (raw) => raw);
}

/** A host without a scheme, with an optional login before it and an optional path after it. */
const HOST = /^(?:[^\s@/?#,]*@)?(?:\[[\da-f:.]+\]|[\w.-]+)(?::\d{1,5})?(?:[/?][^\s,]*)?$/i;

/** One or several absolute URLs separated by commas, kept as written. `schemes` limits the protocol. A password in it is a secret. */
export function url<O extends Base<string> & { schemes?: readonly string[] }>(options: O): Field<ValueOf<string, O>> {
  const parse = (raw: string): string => {
    // A list of servers is several URLs (`nats://a,nats://b`), or one URL followed by more hosts (`redis+cluster://a,b:7`).
    for (const [index, part] of raw.split(',').entries()) {
      if (index > 0 && HOST.test(part.trim())) continue;
      // Only the address of a file has no host.
      const [, file, other] = /^(?:(file):\/\/\/\S|([a-z][a-z0-9+.-]*):\/\/[^\s/?#]+)/i.exec(part.trim()) ?? [];
      const scheme = (file ?? other)?.toLowerCase();
      if (!scheme) throw new FieldFault('is not an absolute URL');
      if (options.schemes && !options.schemes.includes(scheme)) {
        throw new FieldFault(`must start with ${options.schemes.map((one) => `${one}://`).join(' or ')}`);
      }
    }
    return raw;
  };
  return make<string, O>('url', options, parse, options.schemes?.map((one) => `${one}://`).join(' or '));
}

/** An integer. */
export function integer<O extends Base<number> & Bounds>(options: O): Field<ValueOf<number, O>> {
  const parse = (raw: string): number => {
    if (!/^[+-]?\d+$/.test(raw.trim())) throw new FieldFault(`must be an integer, not "${brief(raw)}"`);
    return checkBounds(Number(raw), options);
  };
  return make<number, O>('integer', options, parse, boundsRule(options));
}

/** A finite decimal number. */
export function number<O extends Base<number> & Bounds>(options: O): Field<ValueOf<number, O>> {
  const parse = (raw: string): number => {
    const value = Number(raw);
    if (raw.trim() === '' || !Number.isFinite(value)) throw new FieldFault(`must be a number, not "${brief(raw)}"`);
    return checkBounds(value, options);
  };
  return make<number, O>('number', options, parse, boundsRule(options));
}

const TRUE = new Set(['1', 'true', 'yes', 'on']);
const FALSE = new Set(['0', 'false', 'no', 'off']);

/** 1/0, true/false, yes/no, on/off in any case. */
export function boolean<O extends Base<boolean>>(options: O): Field<ValueOf<boolean, O>> {
  const parse = (raw: string): boolean => {
    const word = raw.trim().toLowerCase();
    if (TRUE.has(word)) return true;
    if (FALSE.has(word)) return false;
    throw new FieldFault(`must be true or false, not "${brief(raw)}"`);
  };
  return make<boolean, O>('boolean', options, parse);
}

const UNIT_MS: Record<string, number> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000 };

/** A duration in milliseconds: `1500`, or with a unit `500ms`, `5s`, `2m`, `1h`. */
export function durationMs<O extends Base<number> & Bounds>(options: O): Field<ValueOf<number, O>> {
  const parse = (raw: string): number => {
    const match = /^(\d+(?:\.\d+)?)(ms|s|m|h)?$/.exec(raw.trim());
    if (!match) throw new FieldFault(`must be milliseconds, or a number with ms, s, m or h, not "${brief(raw)}"`);
    return checkBounds(Number(match[1]) * (UNIT_MS[match[2] ?? 'ms'] ?? 1), options);
  };
  return make<number, O>('duration', options, parse, boundsRule(options, ' ms'));
}

/** A secret: from `KEY`, or from the file named by `KEY_FILE`. Never printed; registered for redaction. */
export function secret<O extends Base<string> & { minLength?: number }>(options: O): Field<ValueOf<string, O>> {
  const { minLength = 0 } = options;
  const parse = (raw: string): string => {
    if (raw.length < minLength) throw new FieldFault(`must have at least ${minLength} characters, has ${raw.length}`);
    return raw;
  };
  return make<string, O>('secret', options, parse, minLength > 0 ? `at least ${minLength} characters` : undefined);
}

/**
 * Items separated by commas; whitespace around items and empty items are dropped. `of` lists the permitted items; `item` throws for an
 * invalid item, with the rule as its message.
 */
export function list<O extends Base<readonly string[]> & { of?: readonly string[]; item?: (item: string) => unknown }>(
  options: O,
): Field<ValueOf<readonly string[], O>> {
  const parse = (raw: string): readonly string[] => {
    const items = raw
      .split(',')
      .map((item) => item.trim())
      .filter((item) => item !== '');
    const unknown = items.find((item) => options.of && !options.of.includes(item));
    if (unknown !== undefined) throw new FieldFault(`"${brief(unknown)}" is not one of ${options.of?.join(', ')}`);
    for (const item of items) {
      try {
        options.item?.(item);
      } catch (error) {
        throw new FieldFault(`has an invalid item: ${(error as Error).message}`);
      }
    }
    return items;
  };
  return make<readonly string[], O>('list', options, parse, options.of && `of ${options.of.join(', ')}`);
}

/** One of the given strings, e.g. `oneOf(['off', 'on'], { default: 'off', help })`. */
export function oneOf<const V extends string, O extends Base<V>>(
  values: readonly V[],
  options: O,
): Field<O extends { optional: true } ? (O extends { default: V } ? V : V | undefined) : V> {
  const parse = (raw: string): V => {
    const found = values.find((value) => value === raw.trim());
    if (found === undefined) throw new FieldFault(`must be one of ${values.join(', ')}, not "${brief(raw)}"`);
    return found;
  };
  return make<V, O>('one of', options, parse, values.join(', ')) as never;
}

/** A file system path, kept as written. `must`: a readable file or folder must exist there. */
export function path<O extends Base<string> & { must?: 'file' | 'folder' }>(options: O): Field<ValueOf<string, O>> {
  const parse = (raw: string): string => {
    if (raw.includes('\0')) throw new FieldFault('must not contain a NUL character');
    if (options.must) checkReadable(raw, options.must);
    return raw;
  };
  return make<string, O>('path', options, parse);
}

function checkReadable(named: string, kind: 'file' | 'folder'): void {
  try {
    accessSync(named, constants.R_OK);
  } catch (error) {
    throw new FieldFault(
      `must name a ${kind} this process can read (${(error as NodeJS.ErrnoException).code ?? 'error'})`,
    );
  }
  if (statSync(named).isDirectory() !== (kind === 'folder')) throw new FieldFault(`must name a ${kind}`);
}

function checkBounds(value: number, { min, max }: Bounds): number {
  if (min !== undefined && value < min) throw new FieldFault(`must be at least ${min}, not ${value}`);
  if (max !== undefined && value > max) throw new FieldFault(`must be at most ${max}, not ${value}`);
  return value;
}

function boundsRule({ min, max }: Bounds, unit = ''): string | undefined {
  if (min !== undefined && max !== undefined) return `${min} to ${max}${unit}`;
  if (min !== undefined) return `at least ${min}${unit}`;
  return max === undefined ? undefined : `at most ${max}${unit}`;
}

const brief = (raw: string): string => (raw.length > 60 ? `${raw.slice(0, 60)}…` : raw);
