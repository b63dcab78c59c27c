import { invalidRequest, isJsonObject, ToolError, type Json, type JsonObject } from '@toolfleet/contracts';
import { KEPT } from '@toolfleet/fleet-file';
import { toRegistration } from './source-statuses.js';

/** Members that hold no address of the source, whatever their text looks like. */
const NO_ADDRESS: ReadonlySet<string> = new Set(['spec_inline', 'description', 'overrides', 'parameters']);

/**
 * A registration that was shown and is sent again: each `${kept}` becomes the stored value of its place, the SHA-256 of a document the
 * document. A kept secret goes where it went before: with another address, it has to be sent again.
 * @param stored the registration of this source, with sealed secrets; undefined: there is none
 * @returns the registration, and `own`: the same without kept values, for checks of values from outside
 * @throws ToolError REQUEST_INVALID naming the field
 */
export function restoreKept(
  sent: JsonObject,
  stored: JsonObject | undefined,
): { restored: JsonObject; own: JsonObject } {
  const shown = stored && toRegistration(stored);
  let keepsSecret = false;
  const restore = (value: Json, from: Json | undefined, shownAs: Json | undefined, path: string): [Json, Json] => {
    if (isJsonObject(value)) {
      const pairs = Object.entries(value).map(([name, member]): [string, [Json, Json]] => {
        const at = path === '' ? name : `${path}.${name}`;
        return [name, restore(member, memberOf(from, name), memberOf(shownAs, name), at)];
      });
      return [toObject(pairs, 0), toObject(pairs, 1)];
    }
    const isDocument = path === 'spec_inline' && value === shownAs;
    if (!isDocument && (typeof value !== 'string' || !value.includes(KEPT))) return [value, value];
    if (value !== shownAs || from === undefined)
      throw invalid(path, `the fleet keeps no value for it; send the value in place of ${KEPT}`);
    keepsSecret ||= !isDocument;
    return [from, isDocument ? from : ''];
  };
  const [restored, own] = restore(sent, stored, shown, '') as [JsonObject, JsonObject];
  if (keepsSecret && stored && (whereTo(restored) !== whereTo(stored) || changesServers(restored, stored)))
    throw invalid('body', 'the address of the source changes, so its secrets are not kept; send them again');
  return { restored, own };
}

const memberOf = (value: Json | undefined, name: string): Json | undefined =>
  isJsonObject(value) && Object.hasOwn(value, name) ? value[name] : undefined;
const toObject = (pairs: readonly [string, [Json, Json]][], side: 0 | 1): JsonObject =>
  Object.fromEntries(pairs.map(([name, sides]) => [name, sides[side]]));

/** Every address in a registration, as one text. */
function whereTo(value: Json, name = ''): string {
  if (NO_ADDRESS.has(name)) return '';
  if (isJsonObject(value))
    return Object.keys(value)
      .toSorted()
      .map((key) => whereTo(value[key]!, key))
      .join('');
  return typeof value === 'string' && value.includes('://') ? `${name} ${value}\n` : '';
}

/** Whether a document can name other servers than before. */
const changesServers = (next: JsonObject, before: JsonObject): boolean =>
  next['base_url'] === undefined && next['spec_inline'] !== before['spec_inline'];

const invalid = (field: string, problem: string): ToolError => invalidRequest(`${field}: ${problem}`, field);
