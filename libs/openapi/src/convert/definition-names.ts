import { isJsonObject, type JsonObject } from '@toolfleet/contracts';
import { pointerTokens } from '../json-pointer.js';

/**
 * Names in `$defs`: the last token of the pointer, sanitised, `_2` on a clash. The schemas of `components` have their
 * names reserved, so that they never depend on the order in which references are met.
 */
export class DefinitionNames {
  private readonly names = new Map<string, string>();
  private readonly used = new Set<string>();

  constructor(root: JsonObject) {
    const components = isJsonObject(root.components) ? root.components : undefined;
    const schemas = components && isJsonObject(components.schemas) ? components.schemas : {};
    for (const name of Object.keys(schemas)) if (LEGAL.test(name) && name !== '__proto__') this.used.add(name);
  }

  /** Name of the target at a canonical pointer. */
  nameOf(pointer: string): string {
    let name = this.names.get(pointer);
    if (name === undefined) {
      name = this.choose(pointer);
      this.names.set(pointer, name);
    }
    return name;
  }

  private choose(pointer: string): string {
    const tokens = pointerTokens(pointer);
    const last = tokens.at(-1) ?? 'root';
    const reserved = tokens.length === 3 && tokens[0] === 'components' && tokens[1] === 'schemas';
    if (reserved && LEGAL.test(last) && last !== '__proto__') return last;
    const base = last.replace(/[^A-Za-z0-9._-]+/g, '_').replace(/^__proto__$/, 'proto') || 'schema';
    let name = base;
    for (let suffix = 2; this.used.has(name); suffix += 1) name = `${base}_${suffix}`;
    this.used.add(name);
    return name;
  }
}

/** Characters that need no escaping in a pointer or a URI fragment. */
const LEGAL = /^[A-Za-z0-9._-]+$/;
