import { isJsonObject, type Json, type JsonObject } from '@toolfleet/contracts';
import { ROUTES, type KeyRights, type NewWebhook, type RouteRequest } from '@toolfleet/contracts/resources';
import { suggestion } from '@toolfleet/contracts/text';
import type { ToolsetSpec } from '@toolfleet/contracts/toolset';
import {
  findFaults,
  findToolsetFaults,
  FleetFileError,
  memberPath,
  parseYaml,
  readFields,
  readMcpEntry,
  readOpenApiEntry,
  SECTIONS,
  type Fault,
  type FileText,
} from '@toolfleet/fleet-file';

export type DeclaredBudget = RouteRequest<'PUT /api/v1/budgets'>['body'];

/** A source as it is declared: the fields of a registration without the name. Variables are not expanded. */
export interface DeclaredSource {
  kind: 'mcp' | 'openapi';
  name: string;
  fields: JsonObject;
}

/** Content of the files of one declared fleet. Each entry is valid by itself. */
export interface FleetFiles {
  /** Owner of everything below. */
  declaration: string;
  /** `fleet`: sources and toolsets are shared with all tenants. */
  visibility: 'tenant' | 'fleet';
  sources: DeclaredSource[];
  toolsets: Record<string, ToolsetSpec>;
  /** Rights by client. */
  keys: Record<string, KeyRights>;
  budgets: DeclaredBudget[];
  webhooks: Record<string, NewWebhook>;
  /** File by path of the entry, such as `toolsets.support`. */
  files: ReadonlyMap<string, string>;
}

const MAPPINGS = ['openapi_tools', 'mcp_servers', 'mcp_tools', 'toolsets', 'keys', 'webhooks'] as const;
type Mapping = (typeof MAPPINGS)[number];
const KNOWN: readonly string[] = ['declaration', 'visibility', ...MAPPINGS, 'budgets'];
const NAME: JsonObject = {
  type: 'string',
  pattern: '^[A-Za-z0-9_-]{1,64}$',
  title: 'up to 64 letters, digits, "_" and "-"',
};
/** Fields of the configuration file that a registration cannot have. */
const NOT_REGISTERED = ['tenant', 'command', 'args', 'env', 'cwd', 'memory_limit_mb'];
const SOURCE_SECTIONS = ['openapi_tools', 'mcp_servers', 'mcp_tools'] as const;

/**
 * Reads the files of a declared fleet. Sections have the form of the configuration file, and keys, budgets and webhooks the form of
 * the HTTP API.
 * @throws FleetFileError with every fault of the first file that has any
 */
export function parseDeclaration(texts: readonly FileText[]): FleetFiles {
  const files = new Map<string, string>();
  const read: FleetFiles = {
    declaration: '',
    visibility: 'tenant',
    sources: [],
    toolsets: {},
    keys: {},
    budgets: [],
    webhooks: {},
    files,
  };
  for (const { file, text } of texts) {
    const faults = readDocument(read, parseYaml(file, text), (path) => {
      const other = files.get(path);
      files.set(path, file);
      return other === undefined ? [] : [{ path, message: `is declared in ${other} as well; remove one` }];
    });
    if (faults.length > 0) throw new FleetFileError(file, faults);
  }
  const first = texts[0]?.file ?? '';
  if (read.declaration === '')
    throw new FleetFileError(first, [
      { path: 'declaration', message: 'is missing; name the owner in one file, such as: declaration: support-team' },
    ]);
  return read;
}

/** @param claim notes the file of an entry, and reports one that is declared twice */
function readDocument(read: FleetFiles, document: JsonObject, claim: (path: string) => Fault[]): Fault[] {
  const faults = Object.keys(document).flatMap((name) => unknownSection(name));
  for (const name of ['declaration', 'visibility'] as const) {
    const value = document[name];
    if (value === undefined) continue;
    const schema = name === 'declaration' ? NAME : { enum: ['tenant', 'fleet'] };
    const found = [...claim(name), ...findFaults(schema, value, name)];
    faults.push(...found);
    if (found.length === 0) read[name] = value as never;
  }
  for (const section of MAPPINGS) {
    const entries = document[section] ?? {};
    if (!isJsonObject(entries)) faults.push({ path: section, message: 'must be a mapping of names to entries' });
    else
      for (const [name, body] of Object.entries(entries)) {
        const path = memberPath(section, name);
        faults.push(...claim(sourceKey(section, name)), ...readEntry(read, section, name, body, path));
      }
  }
  const budgets = document['budgets'] ?? [];
  if (!Array.isArray(budgets)) faults.push({ path: 'budgets', message: 'must be a list' });
  else budgets.forEach((body, index) => faults.push(...readBudget(read, body, `budgets[${index}]`, claim)));
  return faults;
}

/** Servers and functions share their names. */
const sourceKey = (section: Mapping, name: string): string =>
  memberPath(section === 'mcp_tools' ? 'mcp_servers' : section, name);

function unknownSection(name: string): Fault[] {
  if (KNOWN.includes(name) || name.startsWith('x-')) return [];
  const message = Object.hasOwn(SECTIONS, name)
    ? 'belongs into the configuration file of the operator (TOOLFLEET_CONFIG): the HTTP API cannot change it'
    : `is an unknown key${suggestion(name, KNOWN) || `; known: ${KNOWN.join(', ')}`}`;
  return [{ path: memberPath('', name), message }];
}

function readEntry(read: FleetFiles, section: Mapping, name: string, body: Json, path: string): Fault[] {
  if (section === 'keys' || section === 'webhooks') {
    const schema = section === 'keys' ? ROUTES['PUT /api/v1/keys/{id}'].body : ROUTES['POST /api/v1/webhooks'].body;
    const faults = [...findFaults(NAME, name, `name of ${path}`), ...findFaults(schema, body ?? {}, path)];
    if (faults.length === 0) read[section][name] = (body ?? {}) as never;
    return faults;
  }
  if (section === 'toolsets') {
    const spec = readFields(section, body ?? {}, path);
    const faults = [...findFaults(NAME, name, `name of ${path}`), ...(Array.isArray(spec) ? spec : [])];
    if (!Array.isArray(spec)) faults.push(...findToolsetFaults(spec as ToolsetSpec, path));
    if (faults.length === 0) read.toolsets[name] = spec as ToolsetSpec;
    return faults;
  }
  return readSource(read, section, name, body, path);
}

function readSource(
  read: FleetFiles,
  section: (typeof SOURCE_SECTIONS)[number],
  name: string,
  body: Json,
  path: string,
): Fault[] {
  const misplaced = NOT_REGISTERED.find((field) => isJsonObject(body) && field in body);
  if (misplaced)
    return [{ path: memberPath(path, misplaced), message: 'is for the configuration file of the operator only' }];
  if (section === 'openapi_tools') {
    // A local document is sent by the client, so that the file is a valid document for `fleetctl check` as well.
    const entry = readOpenApiEntry(name, body, path);
    if (Array.isArray(entry)) return entry;
    const { name: _name, enabled, ...fields } = entry as unknown as JsonObject;
    if (enabled !== false) read.sources.push({ kind: 'openapi', name, fields });
    return [];
  }
  const entry = readMcpEntry(name, body, section === 'mcp_tools', path);
  if (Array.isArray(entry)) return entry;
  const { name: _name, ...fields } = entry as unknown as JsonObject;
  if (!isJsonObject(body) || body['enabled'] !== false) read.sources.push({ kind: 'mcp', name, fields });
  return [];
}

function readBudget(read: FleetFiles, body: Json, path: string, claim: (path: string) => Fault[]): Fault[] {
  const faults = findFaults(ROUTES['PUT /api/v1/budgets'].body, body, path);
  if (faults.length > 0) return faults;
  const budget = body as unknown as DeclaredBudget;
  const { subject, id, period = 'month', tenant_id: tenant = '', limit_usd: usd, limit_tokens: tokens } = budget;
  if (usd === undefined && tokens === undefined) return [{ path, message: 'needs limit_usd, limit_tokens or both' }];
  if (subject === 'tenant' ? id !== undefined || tenant === '' : id === undefined)
    return [{ path, message: subject === 'tenant' ? 'needs tenant_id and no id' : `needs the id of the ${subject}` }];
  const twice = claim(`budgets of ${[subject, tenant, id, period].filter(Boolean).join(' ')}`);
  if (twice.length === 0) read.budgets.push(budget);
  return twice;
}
