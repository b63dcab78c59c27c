/**
 * Secrets in registrations. A registration is stored and travels in tool definitions, so literal secrets in it are sealed with
 * `REGISTRY_SECRET_KEY`; references to variables stay as they are, because executors expand them.
 */
import { isJsonObject, ToolError, type Json, type JsonObject } from '@toolfleet/contracts';
import { isSealed, secretContext, type SecretBox } from '@toolfleet/service';
import type { SourceAuth } from '@toolfleet/contracts/user-auth';
import { hasVariable, isSecretHeader, SECRET_FIELDS, type McpEntry } from '@toolfleet/fleet-file';

/**
 * Seals a literal for one registration; sealed values stay. Undefined when `REGISTRY_SECRET_KEY` is not set.
 */
export type Seal = ((value: string) => string) | undefined;
/** Returns the sealing function for the registration of a source, by source name. */
export type SealFor = ((source: string) => Exclude<Seal, undefined>) | undefined;

/** The sealing functions of one kind of source; undefined without a key. */
export function createSealFor(kind: 'openapi' | 'mcp', box: SecretBox | undefined): SealFor {
  if (!box) return undefined;
  return (source) => (value) => (isSealed(value) ? value : box.seal(value, secretContext(kind, source)));
}

/**
 * `auth_config` and `extra_headers` of an OpenAPI collection in the form in which they may be stored and sent.
 * @throws ToolError SPEC_INVALID naming the field when a literal secret cannot be sealed
 */
export function sealOpenApiSecrets(
  { auth_config: auth, extra_headers: headers }: { auth_config?: JsonObject; extra_headers?: JsonObject },
  seal: Seal,
): { auth_config?: JsonObject; extra_headers?: JsonObject } {
  const sealed: { auth_config?: JsonObject; extra_headers?: JsonObject } = {};
  if (auth) sealed.auth_config = sealFields(auth, 'auth_config', SECRET_FIELDS.auth_config!, seal);
  if (headers) sealed.extra_headers = sealFields(headers, 'extra_headers', isSecretHeader, seal);
  return sealed;
}

/**
 * An MCP entry in the form in which it may be stored and sent: literal secrets in `headers` and `oauth` are sealed.
 * @throws ToolError SPEC_INVALID naming the field when a literal secret cannot be sealed
 */
export function sealMcpSecrets(entry: McpEntry, seal: Seal): McpEntry {
  const sealed = { ...entry };
  if (entry.headers) sealed.headers = sealFields(entry.headers, 'headers', isSecretHeader, seal);
  if (entry.auth) sealed.auth = sealUserAuth(entry.auth, seal);
  if (entry.oauth) sealed.oauth = sealFields(entry.oauth, 'oauth', SECRET_FIELDS.oauth!, seal);
  return sealed;
}

/** `auth` of a source in the form in which it may be stored and sent. @throws ToolError SPEC_INVALID as the other functions */
export function sealUserAuth(auth: SourceAuth, seal: Seal): SourceAuth {
  const user = sealFields({ ...auth.user }, 'auth.user', SECRET_FIELDS.auth!, seal);
  return { user: user as unknown as SourceAuth['user'] };
}

/** Seals the secret fields of an object and of the objects in it. `path` names the object in errors. */
function sealFields(values: JsonObject, path: string, isSecret: (name: string) => boolean, seal: Seal): JsonObject {
  return Object.fromEntries(
    Object.entries(values).map(([name, value]): [string, Json] => {
      const at = `${path}.${name}`;
      if (isJsonObject(value))
        return [name, sealFields(value, at, name === 'extra_headers' ? isSecretHeader : isSecret, seal)];
      return [name, isSecret(name) ? sealValue(value, at, seal) : value];
    }),
  );
}

function sealValue(value: Json, at: string, seal: Seal): Json {
  if (typeof value !== 'string' || value === '' || hasVariable(value)) return value;
  if (seal) return seal(value);
  if (isSealed(value)) return value;
  throw new ToolError('SPEC_INVALID', {
    message: `${at} is a literal secret and cannot be stored: use \${VARIABLE}, or set REGISTRY_SECRET_KEY`,
    details: { reason: 'SECRET_NOT_STORABLE', field: at },
  });
}
