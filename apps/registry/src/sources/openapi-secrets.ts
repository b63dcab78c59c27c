import { isJsonObject, ToolError, type Json, type JsonObject } from '@toolfleet/contracts';
import { isSealed, olderSecretContext, secretContext, type SecretBox } from '@toolfleet/service';

/**
 * Seals a literal for one registration; what is sealed for it already stays. Undefined when `REGISTRY_SECRET_KEY` is not set.
 */
export type Seal = ((value: string) => string) | undefined;
/** Seals for the registration of a source, by the name of the source. */
export type SealFor = ((source: string) => Exclude<Seal, undefined>) | undefined;

/** The sealing function of one kind of registrations. */
export function sealFor(kind: 'openapi' | 'mcp', box: SecretBox | undefined): SealFor {
  if (!box) return undefined;
  return (source) => (value) => box.sealAgain(value, secretContext(kind, source), olderSecretContext(kind, source));
}

/** Fields of `auth_config` that are secrets by themselves. */
const SECRET_FIELDS: ReadonlySet<string> = new Set([
  'token',
  'api_key_value',
  'value',
  'password',
  'client_secret',
  'refresh_token',
]);
const SECRET_HEADER = /authorization|cookie|token|secret|password|api-?_?key|signature/i;
/** A value made only of variables and the words around them holds no secret of its own. */
const HAS_VARIABLE = /\$\{[A-Za-z_]\w*\}|\$[A-Za-z_]\w*/;

/**
 * `auth_config` and `extra_headers` as they may be stored: variables stay as they are, literal secrets are sealed.
 * @throws ToolError SPEC_INVALID naming the field when a literal cannot be sealed
 */
export function storableSecrets(
  entry: { name: string; auth_config?: JsonObject; extra_headers?: JsonObject },
  seal: Seal,
): { auth_config?: JsonObject; extra_headers?: JsonObject } {
  const stored: { auth_config?: JsonObject; extra_headers?: JsonObject } = {};
  if (entry.auth_config) stored.auth_config = storable(entry.auth_config, 'auth_config', SECRET_FIELDS, seal);
  if (entry.extra_headers) stored.extra_headers = headers(entry.extra_headers, 'extra_headers', seal);
  return stored;
}

function storable(config: JsonObject, at: string, secrets: ReadonlySet<string>, seal: Seal): JsonObject {
  return Object.fromEntries(
    Object.entries(config).map(([name, value]): [string, Json] => {
      if (name === 'extra_headers' && isJsonObject(value)) return [name, headers(value, `${at}.${name}`, seal)];
      if (isJsonObject(value)) return [name, storable(value, `${at}.${name}`, secrets, seal)];
      return [name, secrets.has(name) ? sealed(value, `${at}.${name}`, seal) : value];
    }),
  );
}

function headers(values: JsonObject, at: string, seal: Seal): JsonObject {
  return Object.fromEntries(
    Object.entries(values).map(([name, value]) => [
      name,
      SECRET_HEADER.test(name) ? sealed(value, `${at}.${name}`, seal) : value,
    ]),
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
