/** The Lua scripts of this package, as text for `EVAL`. Editors and linters see them as Lua; bundles inline them. */
import { readFileSync } from 'node:fs';

const PRELUDE = readFileSync(new URL('../lua/prelude.lua', import.meta.url), 'utf8');

export const ACKNOWLEDGE = readFileSync(new URL('../lua/acknowledge.lua', import.meta.url), 'utf8');
export const REBUILD = readFileSync(new URL('../lua/rebuild.lua', import.meta.url), 'utf8');
export const RELEASE = PRELUDE + readFileSync(new URL('../lua/release.lua', import.meta.url), 'utf8');
export const RESERVE = PRELUDE + readFileSync(new URL('../lua/reserve.lua', import.meta.url), 'utf8');
export const SETTLE = PRELUDE + readFileSync(new URL('../lua/settle.lua', import.meta.url), 'utf8');
export const SWEEP = PRELUDE + readFileSync(new URL('../lua/sweep.lua', import.meta.url), 'utf8');
