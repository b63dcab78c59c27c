import { isJsonObject, type Json, type JsonObject } from '@toolfleet/contracts';
import type { OpenApiRegister } from '@toolfleet/contracts/registry';
import { TOOL_SETTINGS } from '@toolfleet/contracts/tool-settings';
import { isToolSetting, overridesViolation, settingViolation, unknownField } from '../tool-settings.js';

/** An entry of `openapi_tools` in the configuration file, or a registration. Variables are not expanded. */
export interface OpenApiEntry extends OpenApiRegister {
  /** Values of server variables. */
  server_variables?: { [name: string]: string };
  /** Which server of the document to use, by URL, name, description or index; default the first. */
  server?: string;
  /** `inline` for model providers that reject `$defs`. */
  schema_style?: 'defs' | 'inline';
}

/** Valid entries of the configuration file, and what is wrong with the others. */
interface OpenApiEntries {
  entries: OpenApiEntry[];
  faults: { name: string; message: string }[];
}

type Check = (value: Json) => boolean;
const isText: Check = (value) => typeof value === 'string';
const isNumber: Check = (value) => typeof value === 'number' && Number.isFinite(value) && value >= 0;
const isTexts: Check = (value) => Array.isArray(value) && value.every((item) => typeof item === 'string');

/** Fields with enumerated values. */
const CHOICES: Readonly<Record<string, readonly string[]>> = {
  auth_type: ['none', 'api_key', 'bearer', 'basic', 'oauth2'],
  schema_style: ['defs', 'inline'],
  pin: ['refuse', 'warn', 'off'],
};

const FIELDS: Readonly<Record<string, Check>> = {
  name: isText,
  enabled: (value) => typeof value === 'boolean',
  spec_url: isText,
  spec_inline: (value) => typeof value === 'string' || isJsonObject(value),
  spec_path: isText,
  auth_config: isJsonObject,
  category: isText,
  base_cost_per_use: isNumber,
  operations: isTexts,
  tags: isTexts,
  base_url: isText,
  max_response_bytes: isNumber,
  name_prefix: (value) => typeof value === 'string' && /^[A-Za-z0-9_-]{0,40}$/.test(value),
  vendor_adapter: isText,
  extra_headers: isJsonObject,
  refresh_seconds: isNumber,
  tenant: isText,
  server_variables: (value) => isJsonObject(value) && Object.values(value).every(isText),
  server: isText,
};

const KNOWN_FIELDS: readonly string[] = [
  ...Object.keys(CHOICES),
  ...Object.keys(FIELDS),
  ...Object.keys(TOOL_SETTINGS),
  'overrides',
];

/** Part of an alias (`collection.tool`) and of a source name. */
const COLLECTION_NAME = /^[A-Za-z0-9_.-]{1,100}$/;

/** Reads `openapi_tools` of the configuration file. Only entries with `enabled: true` count. */
export function readOpenApiEntries(file: JsonObject): OpenApiEntries {
  const read: OpenApiEntries = { entries: [], faults: [] };
  const section = file.openapi_tools;
  if (section === undefined || section === null) return read;
  if (!isJsonObject(section)) {
    read.faults.push({ name: 'openapi_tools', message: 'must be a mapping of collection names to entries' });
    return read;
  }
  for (const [name, body] of Object.entries(section)) {
    if (!isJsonObject(body) || body.enabled !== true) continue;
    const entry = readOpenApiEntry(name, body);
    if (typeof entry === 'string') read.faults.push({ name, message: entry });
    else read.entries.push(entry);
  }
  return read;
}

/**
 * Reads one entry. Returns a message when it is invalid, to follow the entry's name. Unknown fields are errors, because a typo in
 * `operations` would register every operation.
 */
export function readOpenApiEntry(name: string, body: Json | undefined): OpenApiEntry | string {
  if (!isJsonObject(body)) return 'must be a mapping';
  if (!COLLECTION_NAME.test(name)) return 'needs a name of letters, digits, "_", "-" and "."';
  for (const [field, value] of Object.entries(body)) {
    if (value === null) continue;
    const choices = CHOICES[field];
    if (choices) {
      if (!choices.includes(value as string)) return `needs ${field} to be one of ${choices.join(', ')}`;
      continue;
    }
    if (field === 'memory_limit_mb') return 'cannot set memory_limit_mb: an operation runs outside the fleet';
    if (field === 'overrides' || isToolSetting(field)) {
      const violation = field === 'overrides' ? overridesViolation(value, field) : settingViolation(field, value);
      if (violation) return violation;
      continue;
    }
    const check = FIELDS[field];
    if (!check) return unknownField(field, KNOWN_FIELDS);
    if (!check(value)) return `has a wrong value for ${field}`;
  }
  const given = Object.fromEntries(Object.entries(body).filter(([, value]) => value !== null));
  if (isJsonObject(given.spec_inline)) given.spec_inline = JSON.stringify(given.spec_inline);
  const sources = [given.spec_url, given.spec_inline, given.spec_path].filter(
    (value) => value !== undefined && value !== '',
  );
  if (sources.length === 0) return 'needs spec_url, spec_path or spec_inline';
  return { ...given, name } as unknown as OpenApiEntry;
}
