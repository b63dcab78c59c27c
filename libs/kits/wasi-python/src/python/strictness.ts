/** Levels that select which modules and builtins a program may name. They give clear errors; the boundary is the sandbox itself. */
export type Strictness = 'lenient' | 'standard' | 'strict';

/**
 * Modules and names that a program may use at a level of `strictness`.
 *
 * The lists guide model-written code and give clear errors. They are NOT the security boundary: attribute chains such as
 * `json.decoder.scanner.re.enum.sys.modules["os"]` bypass them. The boundary is the WASI host, in which `os` cannot reach
 * anything; `python.spec.ts` shows that such a bypass gains nothing.
 */
interface Level {
  /** Importable modules, including their submodules; null means all. */
  modules: readonly string[] | null;
  /** Builtins a program may not name. */
  bannedBuiltins: readonly string[];
}

const words = (text: string): string[] => text.trim().split(/\s+/);

const STANDARD_MODULES = words(`
  json csv re typing collections itertools functools operator heapq bisect array copy pprint enum math cmath statistics
  random fractions decimal numbers datetime time calendar string textwrap unicodedata difflib base64 binascii quopri uu
  html xml.etree.ElementTree dataclasses hashlib hmac abc contextlib warnings logging`);

const STRICT_MODULES = words(`
  collections itertools functools operator array copy enum math cmath numbers fractions decimal random statistics string
  textwrap unicodedata typing dataclasses abc contextlib`);

const STANDARD_BANNED = words(`
  eval exec compile __import__ open input globals locals vars breakpoint exit quit memoryview bytearray`);

const STRICT_BANNED = [...STANDARD_BANNED, ...words('dir hasattr getattr setattr delattr type isinstance issubclass')];

/** The three levels. */
export const LEVELS: Readonly<Record<Strictness, Level>> = {
  lenient: { modules: null, bannedBuiltins: [] },
  standard: { modules: STANDARD_MODULES, bannedBuiltins: STANDARD_BANNED },
  strict: { modules: STRICT_MODULES, bannedBuiltins: STRICT_BANNED },
};

/** Imported into the snapshot, so that runs do not pay for the import. */
export const PRELOADED_MODULES: readonly string[] = STANDARD_MODULES;

/** True for the name of a level. */
export function isStrictness(value: unknown): value is Strictness {
  return typeof value === 'string' && Object.hasOwn(LEVELS, value);
}
