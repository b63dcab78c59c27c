import { readFileSync } from 'node:fs';

const BOOT = readFileSync(new URL('../../python/boot.py', import.meta.url), 'utf8');
const INCLUDED: Readonly<Record<string, string>> = {
  'strictness.py': readFileSync(new URL('../../python/strictness.py', import.meta.url), 'utf8'),
  'patches.py': readFileSync(new URL('../../python/patches.py', import.meta.url), 'utf8'),
  'warm_up.py': readFileSync(new URL('../../python/warm_up.py', import.meta.url), 'utf8'),
};

export interface BootOptions {
  /** Imported before the snapshot. */
  preload: readonly string[];
  /** Lists of each level; null modules mean all. */
  levels: Readonly<Record<string, { modules: readonly string[] | null; bannedBuiltins: readonly string[] }>>;
  /** Bytes of heap to have ready, beside 4 MiB in small pieces. */
  heapBytes: number;
}

/** The program that a guest boots with: python/boot.py with its includes and placeholders filled in. */
export function bootScript(options: BootOptions): string {
  const levels = Object.fromEntries(
    Object.entries(options.levels).map(([level, rules]) => [
      level,
      { modules: rules.modules, banned: rules.bannedBuiltins },
    ]),
  );
  // JSON text inside a Python literal: parsed by json once it is imported, so that null and quotes need no care.
  const literal = (value: unknown) => `__import__("json").loads(${JSON.stringify(JSON.stringify(value))})`;
  return BOOT.replace(/^# include: (\S+)$/gm, (_, file: string) => INCLUDED[file]!)
    .replace('__PRELOAD__', () => literal(options.preload))
    .replace('__LEVELS__', () => literal(levels))
    .replace('__HEAP__', () => String(options.heapBytes));
}
