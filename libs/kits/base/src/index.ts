export { AbortSource, onAbort } from './abort-source.js';
export { Clock, SystemClock, type CancelTimer } from './clock.js';
export {
  CodedError,
  describeCodes,
  isCodedError,
  type CodedErrorOptions,
  type KitCode,
  type KitFacts,
} from './coded-error.js';
export { isJsonObject, jsonObject, type Json, type JsonMembers, type JsonObject } from './json.js';
export { RecentMap } from './recent-map.js';
export { atTurnEnd } from './turn-end.js';
export type { EpochMs, Milliseconds } from './units.js';
