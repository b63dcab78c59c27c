/** The Lua scripts of the gateway's stores, as text for `EVAL`. Editors and linters see them as Lua; bundles inline them. */
import { readFileSync } from 'node:fs';

const KEPT_RESULTS = readFileSync(new URL('../../lua/kept-results.lua', import.meta.url), 'utf8');
export const KEEP_RESULT = KEPT_RESULTS + readFileSync(new URL('../../lua/keep-result.lua', import.meta.url), 'utf8');
export const ADMIT_RESULT = KEPT_RESULTS + readFileSync(new URL('../../lua/admit-result.lua', import.meta.url), 'utf8');
export const DROP_RESULT = KEPT_RESULTS + readFileSync(new URL('../../lua/drop-result.lua', import.meta.url), 'utf8');
export const READ_CACHED = readFileSync(new URL('../../lua/read-cached.lua', import.meta.url), 'utf8');
export const TAKE_TOKENS = readFileSync(new URL('../../lua/take-tokens.lua', import.meta.url), 'utf8');
