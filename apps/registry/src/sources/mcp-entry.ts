import { isJsonObject, type Json, type JsonObject } from '@toolfleet/contracts';
import type { McpRegister } from '@toolfleet/contracts/registry';
import { TOOL_SETTINGS } from '@toolfleet/contracts/tool-settings';
import { isToolSetting, overridesViolation, settingViolation, unknownField } from '../tool-settings.js';

/** An entry of `mcp_servers` or `mcp_tools` in the configuration file, or a registration. Variables are not expanded. */
export interface McpEntry extends McpRegister {
  /** Command of a local server process; only in the configuration file and in local mode. */
  command?: string;
  args?: string[];
  env?: JsonObject;
  cwd?: string;
  max_response_bytes?: number;
  /** Longest attempt of a server that reports progress; `timeout_seconds` then limits the time between two reports. */
  max_seconds?: number;
  /** The server accepts the idempotency key of a call. */
  forwards_idempotency_key?: boolean;
  /** Whether calls may or must become MCP tasks; forbidden by default. */
  task_support?: 'forbidden' | 'optional' | 'required';
  /** Seconds between two requests for the server's tool list; 0 = only after its `list_changed` notification. */
  refresh_seconds?: number;
}

/** Valid entries of the configuration file, and what is wrong with the others. */
interface McpEntries {
  entries: McpEntry[];
  faults: { name: string; message: string }[];
}

type Check = (value: Json) => boolean;
const isText: Check = (value) => typeof value === 'string';
const isNumber: Check = (value) => typeof value === 'number' && Number.isFinite(value) && value >= 0;
const isFlag: Check = (value) => typeof value === 'boolean';
const isTexts: Check = (value) => Array.isArray(value) && value.every((item) => typeof item === 'string');

/** Checked here because any other URL would fail only when the tool is called. */
const isHttpUrl: Check = (value) =>
  value === '' || (typeof value === 'string' && /^https?:\/\//i.test(value) && URL.canParse(value));

const FIELDS: Record<string, Check> = {
  enabled: isFlag,
  url: isHttpUrl,
  func_name: isText,
  transport: (value) => ['auto', 'streamable-http', 'function-args', 'stdio'].includes(String(value)),
  description: isText,
  category: isText,
  headers: isJsonObject,
  parameters: (value) => Array.isArray(value) && value.every(isJsonObject),
  cost_per_use: isNumber,
  trusted: isFlag,
  pin: (value) => ['refuse', 'warn', 'off'].includes(String(value)),
  prefix: isText,
  tools: isTexts,
  oauth: isJsonObject,
  command: isText,
  args: isTexts,
  env: isJsonObject,
  cwd: isText,
  max_response_bytes: isNumber,
  max_seconds: isNumber,
  refresh_seconds: isNumber,
  forwards_idempotency_key: isFlag,
  task_support: (value) => ['forbidden', 'optional', 'required'].includes(String(value)),
};

const KNOWN_FIELDS: readonly string[] = [...Object.keys(FIELDS), ...Object.keys(TOOL_SETTINGS), 'overrides'];

/** Reads `mcp_servers` and `mcp_tools` of the configuration file, without entries that have `enabled: false`. */
export function readMcpEntries(file: JsonObject): McpEntries {
  const read: McpEntries = { entries: [], faults: [] };
  for (const section of ['mcp_servers', 'mcp_tools'] as const) {
    const entries = file[section];
    if (entries === undefined || entries === null) continue;
    if (!isJsonObject(entries)) {
      read.faults.push({ name: section, message: 'must be a mapping of names to entries' });
      continue;
    }
    for (const [name, body] of Object.entries(entries)) {
      if (isJsonObject(body) && body['enabled'] === false) continue;
      const entry = readMcpEntry(name, body, section === 'mcp_tools');
      if (typeof entry === 'string') read.faults.push({ name, message: entry });
      else read.entries.push(entry);
    }
  }
  return read;
}

/** Reads one entry. Returns a message when it is invalid, to follow the entry's name. Unknown fields are errors. */
export function readMcpEntry(name: string, body: Json | undefined, isTool: boolean): McpEntry | string {
  if (!isJsonObject(body)) return 'must be a mapping';
  for (const [field, value] of Object.entries(body)) {
    if (value === null) continue;
    if (field === 'overrides' || isToolSetting(field)) {
      const violation = field === 'overrides' ? overridesViolation(value, field) : settingViolation(field, value);
      if (violation) return violation;
      continue;
    }
    const check = FIELDS[field];
    if (!check) return unknownField(field, KNOWN_FIELDS);
    if (check === isHttpUrl && !check(value)) return 'needs an http or https URL as url';
    if (!check(value)) return `has a wrong value for ${field}`;
  }
  const given = Object.fromEntries(
    Object.entries(body).filter(([field, value]) => value !== null && field !== 'enabled'),
  );
  const entry = { ...given, name, url: String(given['url'] ?? '') } as unknown as McpEntry;
  const isLocal = entry.command !== undefined;
  if (!isLocal && entry.memory_limit_mb !== undefined)
    return 'cannot set memory_limit_mb: only a local server (command) has a memory limit';
  if (!isLocal && entry.url === '') return 'needs a url';
  if (isTool && entry.func_name === undefined) return 'needs func_name';
  return entry;
}

/** True for a single remote function, false for an MCP server. */
export function isFunctionEntry(entry: McpEntry): boolean {
  return entry.func_name !== undefined || entry.transport === 'function-args';
}
