/** A program may import and name everything that the sandbox has, or pure computation only. */
export type Strictness = 'standard' | 'strict';

const words = (text: string): string[] => text.trim().split(/\s+/);

/**
 * The lists of `strict`. They guide model-written code and give clear errors. They are NOT the security boundary: attribute chains
 * such as `statistics.sys.modules["os"]` bypass them. The boundary is the WASI host, in which `os` cannot reach anything; `python.spec.ts`
 * shows that such a bypass gains nothing. For that reason `standard` has no lists.
 */
export const STRICT = {
  /** Importable modules, including their submodules. */
  modules: words(`
    collections itertools functools operator array copy enum math cmath numbers fractions decimal random statistics string
    textwrap unicodedata typing dataclasses abc contextlib __future__`),
  /** Builtins a program may not name. */
  banned: words(`
    eval exec compile __import__ open input globals locals vars breakpoint exit quit memoryview bytearray
    dir hasattr getattr setattr delattr type isinstance issubclass`),
};

/** Imported into the snapshot, so that runs do not pay for the import. Each costs memory in every thread, so the list has the modules of most programs. */
export const PRELOADED_MODULES: readonly string[] = words(`
  json csv re typing collections itertools functools operator heapq bisect array copy pprint enum math cmath statistics
  random fractions decimal numbers datetime time calendar string textwrap unicodedata difflib base64 binascii quopri
  html xml.etree.ElementTree dataclasses hashlib hmac abc contextlib warnings logging pathlib zoneinfo`);

/** True for the name of a level. */
export function isStrictness(value: unknown): value is Strictness {
  return value === 'standard' || value === 'strict';
}
