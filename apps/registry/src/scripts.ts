/** The Lua scripts of this package, as text for `EVAL`. Editors and linters see them as Lua; bundles inline them. */
import { readFileSync } from 'node:fs';

const IS_KEPT = readFileSync(new URL('../lua/is-kept.lua', import.meta.url), 'utf8');

export const EXPIRE = readFileSync(new URL('../lua/expire.lua', import.meta.url), 'utf8');
export const PUT = IS_KEPT + readFileSync(new URL('../lua/put.lua', import.meta.url), 'utf8');
export const REMOVE = IS_KEPT + readFileSync(new URL('../lua/remove.lua', import.meta.url), 'utf8');
export const REPLACE = readFileSync(new URL('../lua/replace.lua', import.meta.url), 'utf8');
