import { isJsonObject, type Json, type JsonObject } from '../json.js';

/** Longest message of an error in characters. Tracebacks and upstream messages are shorter. */
export const MAX_ERROR_MESSAGE = 16_384;
/** Longest string, and longest key, inside the details of an error. */
const MAX_DETAIL_STRING = 1_024;
const MAX_DETAIL_KEY = 128;
/** Most members of one list or object in the details. */
const MAX_DETAIL_MEMBERS = 100;
/** Most characters of all details together, keys included. */
const MAX_DETAILS_CHARS = 32_768;
const MAX_DETAILS_DEPTH = 8;
const CUT = '…';

/** Text of at most `chars` characters; what was cut off shows as `…`. */
export function shortened(text: string, chars: number): string {
  return text.length > chars ? `${text.slice(0, chars - 1)}${CUT}` : text;
}

/**
 * Details of an error within the limits above. Messages and details quote what a caller sent, so without limits an error
 * would be as large as the largest request, several times over. The common case, small details, is returned as it is.
 */
export function boundedDetails(details: JsonObject): JsonObject {
  const room = { left: MAX_DETAILS_CHARS };
  return bounded(details, room, 0) as JsonObject;
}

/** The value itself when nothing had to be cut, otherwise a copy. */
function bounded(value: Json, room: { left: number }, depth: number): Json {
  if (typeof value === 'string') {
    const text = shortened(value, Math.max(1, Math.min(MAX_DETAIL_STRING, room.left)));
    room.left -= text.length;
    return text;
  }
  if (Array.isArray(value)) {
    if (depth >= MAX_DETAILS_DEPTH) return CUT;
    const kept: Json[] = [];
    for (const member of value) {
      if (kept.length >= MAX_DETAIL_MEMBERS || room.left <= 0) break;
      kept.push(bounded(member, room, depth + 1));
    }
    return kept.length === value.length && kept.every((member, index) => member === value[index]) ? value : kept;
  }
  if (!isJsonObject(value)) return value;
  if (depth >= MAX_DETAILS_DEPTH) return CUT;
  const kept: [string, Json][] = [];
  let isWhole = true;
  for (const key in value) {
    if (!Object.hasOwn(value, key)) continue;
    if (kept.length >= MAX_DETAIL_MEMBERS || room.left <= 0) {
      isWhole = false;
      break;
    }
    const name = shortened(key, MAX_DETAIL_KEY);
    room.left -= name.length;
    const member = bounded(value[key] as Json, room, depth + 1);
    isWhole &&= name === key && member === value[key];
    kept.push([name, member]);
  }
  return isWhole ? value : Object.fromEntries(kept);
}
