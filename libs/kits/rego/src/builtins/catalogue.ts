import { COLLECTION_BUILTINS } from './collections.js';
import { NUMBER_BUILTINS } from './numbers.js';
import type { Builtin } from './operands.js';
import { STRING_BUILTINS } from './strings.js';
import { TYPE_BUILTINS } from './types.js';

/** Functions by name. */
export type Builtins = ReadonlyMap<string, Builtin>;

/** All supported builtins. A policy that uses another one is refused when it is loaded. */
export const BUILTINS: Builtins = new Map<string, Builtin>(
  [NUMBER_BUILTINS, COLLECTION_BUILTINS, STRING_BUILTINS, TYPE_BUILTINS].flatMap((group) => Object.entries(group)),
);
