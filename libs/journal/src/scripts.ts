/** The Lua scripts of this package, as text for `EVAL`. Editors and linters see them as Lua; bundles inline them. */
import { readFileSync } from 'node:fs';

const PRELUDE = readFileSync(new URL('../lua/prelude.lua', import.meta.url), 'utf8');

export const ACCEPT = PRELUDE + readFileSync(new URL('../lua/accept.lua', import.meta.url), 'utf8');
export const ABANDON = PRELUDE + readFileSync(new URL('../lua/abandon.lua', import.meta.url), 'utf8');
export const AWAIT_INPUT = PRELUDE + readFileSync(new URL('../lua/await-input.lua', import.meta.url), 'utf8');
export const BUMP = PRELUDE + readFileSync(new URL('../lua/bump.lua', import.meta.url), 'utf8');
export const CLAIM = PRELUDE + readFileSync(new URL('../lua/claim.lua', import.meta.url), 'utf8');
export const FINISH = PRELUDE + readFileSync(new URL('../lua/finish.lua', import.meta.url), 'utf8');
export const TAKE_KEY = readFileSync(new URL('../lua/take-key.lua', import.meta.url), 'utf8');
export const FREE_KEY = readFileSync(new URL('../lua/free-key.lua', import.meta.url), 'utf8');
export const READ = PRELUDE + readFileSync(new URL('../lua/read.lua', import.meta.url), 'utf8');
export const STATE = readFileSync(new URL('../lua/state.lua', import.meta.url), 'utf8');
export const BATCH = readFileSync(new URL('../lua/batch.lua', import.meta.url), 'utf8');
export const WITHDRAW = PRELUDE + readFileSync(new URL('../lua/withdraw.lua', import.meta.url), 'utf8');
