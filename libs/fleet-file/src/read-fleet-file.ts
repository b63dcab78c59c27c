import { readFileSync } from 'node:fs';
import { isJsonObject, type Json, type JsonObject } from '@toolfleet/contracts';
import { suggestion } from '@toolfleet/contracts/text';
import type { ToolsetSpec } from '@toolfleet/contracts/toolset';
import { CORE_SCHEMA, dump, load, Type, YAMLException } from 'js-yaml';
import {
  findToolsetFaults,
  readFields,
  readMcpEntry,
  readOpenApiEntry,
  withoutUnsetPatterns,
  type McpEntry,
  type OpenApiEntry,
  type SourceSection,
} from './entries.js';
import { faultLine, findFaults, memberPath, type Fault } from './faults.js';
import { findInterceptorFaults } from './interceptors.js';
import { ENTRY_SECTIONS, SECTIONS, type Sections } from './schema.js';
import { findSignInFaults } from './sign-in.js';

/** An entry that is invalid. It is ignored, and its earlier declaration stays in force. */
interface RefusedEntry {
  section: SourceSection | 'toolsets';
  name: string;
  /** As far as the entry says. */
  tenant?: string;
  faults: Fault[];
}

/** The content of the configuration files of a fleet. */
export interface FleetFile extends Sections {
  /** False when no file is configured: the fleet's declarations are unknown. */
  isConfigured: boolean;
  /** Valid entries with `enabled: true`. */
  openapi: OpenApiEntry[];
  /** Valid entries of `mcp_servers` and `mcp_tools`, without those with `enabled: false`. */
  mcp: McpEntry[];
  toolsets: { [id: string]: ToolsetSpec };
  refused: RefusedEntry[];
}

/** A file that cannot be used. */
export class FleetFileError extends Error {
  /** Ends the start of a service with exit code 78. */
  readonly startRefused = true;

  constructor(
    readonly file: string,
    readonly faults: readonly Fault[],
  ) {
    super(`configuration file ${file}: ${faults.map(faultLine).join('; ')}`);
  }
}

/** One of the configuration files and its text. */
export interface FileText {
  file: string;
  text: string;
}

/** JSON values and merge keys (`<<`); dates stay strings. */
const YAML_SCHEMA = CORE_SCHEMA.extend({
  implicit: [
    new Type('tag:yaml.org,2002:merge', { kind: 'scalar', resolve: (data: unknown) => data === '<<' || data === null }),
  ],
});
const MAX_BYTES = 4 * 1024 * 1024;
/** Keys for anchors, as in Compose files. */
const EXTENSION = /^x-/;
const NAMES = [...Object.keys(ENTRY_SECTIONS), ...Object.keys(SECTIONS)];

/** The configuration of a fleet without a file. */
export const NO_FLEET_FILE: FleetFile = { ...readDocument({}), isConfigured: false };

/** @throws FleetFileError when the file cannot be read */
export function readText(file: string): FileText {
  try {
    const text = readFileSync(file, 'utf8');
    if (text.length > MAX_BYTES) throw refusal(file, `is larger than ${MAX_BYTES} bytes`);
    return { file, text };
  } catch (error) {
    if (error instanceof FleetFileError) throw error;
    throw refusal(file, `cannot be read: ${(error as NodeJS.ErrnoException).code ?? 'error'}`);
  }
}

/**
 * Reads configuration files (YAML, so also JSON). Sections of several files are joined; of two entries with the same name, the
 * one in the later file counts. `${VAR}` is left as written; the executor that connects expands it.
 * @throws FleetFileError with every fault of a file that must not be used: one with an unknown key at any level, or with a fault
 *   outside the entries of sources and toolsets. Faults in entries are in `refused`.
 */
export function parseFleetFiles(texts: readonly FileText[]): FleetFile {
  const documents = texts.map(({ file, text }) => ({ file, document: parseYaml(file, text) }));
  const joined: JsonObject = {};
  for (const { document } of documents) {
    for (const [name, section] of Object.entries(document)) {
      const before = Object.hasOwn(joined, name) ? joined[name] : undefined;
      setOwn(joined, name, isJsonObject(before) && isJsonObject(section) ? { ...before, ...section } : section);
    }
  }
  try {
    return readDocument(joined);
  } catch (error) {
    if (!(error instanceof FleetFileError)) throw error;
    const sections = error.faults.map(({ path }) => /^[^.[]*/.exec(path)?.[0] ?? path);
    const files = documents.filter(({ document }) => sections.some((name) => Object.hasOwn(document, name)));
    throw new FleetFileError(files.map(({ file }) => file).join(', '), error.faults);
  }
}

/** A document as YAML. */
export function formatYaml(document: JsonObject): string {
  return dump(document, { lineWidth: 120, noRefs: true, quotingType: '"' });
}

/** A document that declares nothing has at least a comment: a file without any character was truncated. */
export function parseYaml(file: string, text: string): JsonObject {
  if (text.trim() === '') throw refusal(file, 'is empty; write {} for a configuration without any section');
  let document: unknown;
  try {
    document = load(text, { filename: file, schema: YAML_SCHEMA });
  } catch (error) {
    const reason = error instanceof YAMLException ? error.message.split('\n')[0] : String(error);
    throw refusal(file, `is not valid YAML: ${reason}`);
  }
  if (document === undefined || document === null) return {};
  if (!isJsonObject(document)) throw refusal(file, 'must be a mapping at its top level');
  return document;
}

function readDocument(document: JsonObject): FleetFile {
  const faults: Fault[] = [];
  const sections: Record<string, Json> = {};
  for (const name of Object.keys(document)) {
    if (NAMES.includes(name) || EXTENSION.test(name)) continue;
    const meant = suggestion(name, NAMES) || `; known: ${NAMES.join(', ')}`;
    faults.push({ path: memberPath('', name), message: `is an unknown key${meant}`, isUnknownKey: true });
  }
  for (const [name, schema] of Object.entries(SECTIONS)) {
    const section = withoutUnsetPatterns(name === 'tool_settings' ? schema : undefined, document[name] ?? {});
    faults.push(...findFaults(schema, section, name));
    sections[name] = section;
  }
  // What its schema accepts has its type; with faults, nothing reads it.
  const checked = sections as unknown as Sections;
  if (faults.length === 0)
    faults.push(...findInterceptorFaults(checked.interceptors), ...findSignInFaults(checked.sign_in));
  const read: FleetFile = { ...checked, isConfigured: true, openapi: [], mcp: [], toolsets: {}, refused: [] };
  for (const section of Object.keys(ENTRY_SECTIONS) as (keyof typeof ENTRY_SECTIONS)[])
    faults.push(...readEntries(read, section, document[section] ?? {}));
  if (faults.length > 0) throw new FleetFileError('', faults);
  return read;
}

/** Reads the entries of a section into `file`. @returns faults that refuse the whole file */
function readEntries(file: FleetFile, section: keyof typeof ENTRY_SECTIONS, entries: Json): Fault[] {
  if (!isJsonObject(entries)) return [{ path: section, message: 'must be a mapping of names to entries' }];
  return Object.entries(entries).flatMap(([name, body]) => {
    const found = readEntry(file, section, name, body);
    if (found.length === 0) return [];
    const tenant = isJsonObject(body) && typeof body.tenant === 'string' ? body.tenant : undefined;
    file.refused.push({ section, name, tenant, faults: found });
    return found.filter(({ isUnknownKey }) => isUnknownKey);
  });
}

function readEntry(file: FleetFile, section: keyof typeof ENTRY_SECTIONS, name: string, body: Json): Fault[] {
  const path = memberPath(section, name);
  const enabled = isJsonObject(body) ? body.enabled : undefined;
  if (section === 'toolsets') {
    const spec = readFields(section, body ?? {}, path);
    const faults = findFaults(ENTRY_SECTIONS.toolsets.name, name, path);
    if (Array.isArray(spec)) return [...faults, ...spec];
    faults.push(...findToolsetFaults(spec as ToolsetSpec, path));
    if (faults.length === 0) setOwn(file.toolsets, name, spec as ToolsetSpec);
    return faults;
  }
  if (section === 'openapi_tools') {
    const entry = readOpenApiEntry(name, body, path);
    // A disabled entry is a draft: only its keys are checked.
    if (Array.isArray(entry)) return enabled === true ? entry : unknownKeys(entry);
    if (enabled === true) file.openapi.push(entry);
    return [];
  }
  const entry = readMcpEntry(name, body, section === 'mcp_tools', path);
  if (Array.isArray(entry)) return enabled === false ? unknownKeys(entry) : entry;
  if (enabled === false) return [];
  if (file.mcp.some((other) => other.name === name))
    return [{ path, message: 'has the name of an entry of mcp_servers; choose another' }];
  file.mcp.push(entry);
  return [];
}

const unknownKeys = (faults: readonly Fault[]): Fault[] => faults.filter(({ isUnknownKey }) => isUnknownKey);

/** Sets a key also when it is `__proto__`. */
function setOwn<T>(target: { [name: string]: T }, name: string, value: T): void {
  Object.defineProperty(target, name, { value, enumerable: true, configurable: true, writable: true });
}

function refusal(file: string, message: string): FleetFileError {
  return new FleetFileError(file, [{ path: '', message }]);
}
