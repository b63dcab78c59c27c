import { isJsonObject, type Json, type JsonObject } from '@toolfleet/contracts';
import { secretName } from '@toolfleet/contracts/secret-names';

/** Names of headers with a secret. */
const SECRET_HEADER = /authorization|cookie|token|secret|password|api-?_?key|signature/i;
/** A value with a variable, such as `Bearer ${TOKEN}`, contains no secret of its own. */
const HAS_VARIABLE = /\$\{[A-Za-z_]\w*\}|\$[A-Za-z_]\w*/;

export const isSecretHeader = (name: string): boolean => SECRET_HEADER.test(name);
/** By the field of a source that contains them: which members are secret, at any depth. */
export const SECRET_FIELDS: Readonly<Record<string, (name: string) => boolean>> = {
  auth_config: (name) => name === 'value' || secretName(name) === 'secret',
  oauth: (name) => name === 'assertion' || secretName(name) === 'secret',
  auth: (name) => name === 'client_secret',
};
export const hasVariable = (value: string): boolean => HAS_VARIABLE.test(value);

/** Stands for a secret that the fleet keeps and never returns. */
export const KEPT = '${kept}';
const ANY_HEADER = () => true;

/**
 * The fields of a source with its secrets as `${kept}`: secret members, values of all headers, and user and query of URLs. Variables stay.
 * @returns also the hidden values, in the order of the fields
 */
export function hideSecrets(fields: JsonObject): { shown: JsonObject; secrets: string[] } {
  const secrets: string[] = [];
  const keep = (value: string): string => {
    if (value === '' || value === KEPT || hasVariable(value)) return value;
    secrets.push(value);
    return KEPT;
  };
  const hide = (name: string, value: Json, isSecret: ((name: string) => boolean) | undefined): Json => {
    const inside = /^(extra_)?headers$/.test(name) ? ANY_HEADER : (isSecret ?? SECRET_FIELDS[name]);
    if (isJsonObject(value))
      return inside
        ? Object.fromEntries(Object.entries(value).map(([key, member]) => [key, hide(key, member, inside)]))
        : value;
    if (typeof value !== 'string') return value;
    if (isSecret?.(name)) return keep(value);
    if (!/url$/.test(name)) return value;
    return value
      .replace(/^([a-z][a-z0-9+.-]*:\/\/)([^/?#]*)@/i, (_, scheme: string, user: string) => `${scheme}${keep(user)}@`)
      .replace(/\?([^#]*)/, (_, query: string) => `?${keep(query)}`);
  };
  const shown = Object.fromEntries(Object.entries(fields).map(([name, value]) => [name, hide(name, value, undefined)]));
  return { shown, secrets };
}
