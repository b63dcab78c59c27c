import { createHash, randomBytes, scryptSync, timingSafeEqual } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { Json, JsonObject } from '@toolfleet/contracts';
import { hideSecrets, KEPT } from '@toolfleet/fleet-file';
import { CliError, EXIT } from '../cli-error.js';

/** A declared source with its variables expanded. */
export interface ExpandedSource {
  /** The sent form. */
  fields: JsonObject;
  /** The compared form: secrets are `${kept}`, a document is its hash. */
  value: JsonObject;
  secrets: string[];
  /** Variables in secrets that are not set. */
  unset: string[];
  /** Some secret is kept at the fleet, so the source cannot be sent. */
  isKept: boolean;
}

const VARIABLE = /\$\{([A-Za-z_]\w*)\}/g;
/** Marks a variable that is not set until its place is known. */
const MARK = /\0([A-Za-z_]\w*)\0/g;

/**
 * Expands `${VAR}` from the environment, and reads the document that `spec_path` names, relative to the file.
 * @param expands false: the fleet expands the variables, so they stay
 * @throws CliError for a variable that is not set and not in a secret, and a document that cannot be read
 */
export function expandSource(
  declared: JsonObject,
  at: { file: string; path: string },
  env: Readonly<Record<string, string | undefined>>,
  expands: boolean,
): ExpandedSource {
  const { spec_path: document, ...rest } = declared;
  const expanded = expands ? (expand(rest, env) as JsonObject) : rest;
  const fields = typeof document === 'string' ? { ...expanded, spec_inline: readDocument(document, at) } : expanded;
  const { spec_inline: text, ...others } = fields;
  const { shown, secrets } = hideSecrets(others);
  const open = JSON.stringify(shown)
    .match(/\\u0000\w+/)?.[0]
    ?.slice(6);
  if (open) throw new CliError(`${at.file}: ${at.path} uses \${${open}}, which is not set; set it`, EXIT.usage);
  return {
    fields,
    value: typeof text === 'string' ? { ...shown, spec_inline: `sha256:${sha256(text)}` } : shown,
    secrets,
    unset: [...new Set(secrets.flatMap(unsetIn))],
    isKept: JSON.stringify(others).includes(KEPT),
  };
}

function expand(value: Json, env: Readonly<Record<string, string | undefined>>): Json {
  if (typeof value === 'string') return expandText(value, env);
  if (Array.isArray(value)) return value.map((item) => expand(item, env));
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, expand(member as Json, env)]));
}

const expandText = (text: string, env: Readonly<Record<string, string | undefined>>): string =>
  text.replace(VARIABLE, (all, name: string) => (all === KEPT ? all : env[name] || `\0${name}\0`));

/** A text with its variables expanded, unless one is not set. */
export function expandSecret(
  text: string,
  env: Readonly<Record<string, string | undefined>>,
): { text: string; isSecret: boolean; unset: string[] } {
  const expanded = expandText(text, env);
  return { text: expanded, isSecret: text.search(VARIABLE) >= 0, unset: unsetIn(expanded) };
}

const unsetIn = (text: string): string[] => [...text.matchAll(MARK)].map(([, name]) => name!);

function readDocument(path: string, at: { file: string; path: string }): string {
  try {
    return readFileSync(join(dirname(at.file), path), 'utf8');
  } catch (error) {
    throw new CliError(`${at.file}: ${at.path}.spec_path cannot be read: ${(error as Error).message}`, EXIT.usage);
  }
}

const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex');

/** A digest of secrets that can be stored: salted and slow, because secrets may be guessed. Empty without secrets. */
export function secretDigest(secrets: readonly string[], salt = randomBytes(16)): string {
  if (secrets.length === 0) return '';
  return `${salt.toString('hex')}:${scryptSync(JSON.stringify(secrets), salt, 16).toString('hex')}`;
}

export function isSameSecret(secrets: readonly string[], digest: string): boolean {
  const made = secretDigest(secrets, Buffer.from(digest.split(':')[0]!, 'hex'));
  return made.length === digest.length && timingSafeEqual(Buffer.from(made), Buffer.from(digest));
}
