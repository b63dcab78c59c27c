import { isJsonObject, ToolError, type Json, type JsonObject } from '@toolfleet/contracts';
import { isSealed } from '@toolfleet/service';
import type { McpEntry } from './mcp-entry.js';
import type { Seal } from './openapi-secrets.js';

const SECRET_HEADER = /authorization|cookie|token|secret|password|api-?_?key|signature/i;
const SECRET_OAUTH: ReadonlySet<string> = new Set([
  'client_secret',
  'refresh_token',
  'access_token',
  'password',
  'private_key',
  'assertion',
  'id_token',
]);
const HAS_VARIABLE = /\$\{[A-Za-z_]\w*\}|\$[A-Za-z_]\w*/;

/**
 * An entry as it may be stored and sent: variables stay, literal secrets in `headers` and `oauth` are sealed.
 * @throws ToolError SPEC_INVALID naming the field when a literal cannot be sealed
 */
export function storableEntry(entry: McpEntry, seal: Seal): McpEntry {
  return {
    ...entry,
    ...(entry.headers
      ? { headers: sealWhere(entry.headers, 'headers', (name) => SECRET_HEADER.test(name), seal) }
      : {}),
    ...(entry.oauth ? { oauth: sealWhere(entry.oauth, 'oauth', (name) => SECRET_OAUTH.has(name), seal) } : {}),
  };
}

function sealWhere(values: JsonObject, at: string, isSecret: (name: string) => boolean, seal: Seal): JsonObject {
  return Object.fromEntries(
    Object.entries(values).map(([name, value]): [string, Json] => {
      if (isJsonObject(value)) return [name, sealWhere(value, `${at}.${name}`, isSecret, seal)];
      return [name, isSecret(name) ? sealed(value, `${at}.${name}`, seal) : value];
    }),
  );
}

function sealed(value: Json, at: string, seal: Seal): Json {
  if (typeof value !== 'string' || value === '' || HAS_VARIABLE.test(value)) return value;
  if (seal) return seal(value);
  if (isSealed(value)) return value;
  throw new ToolError('SPEC_INVALID', {
    message: `${at} is a literal secret and cannot be stored: use \${VARIABLE}, or set REGISTRY_SECRET_KEY`,
    details: { reason: 'SECRET_NOT_STORABLE', field: at },
  });
}
