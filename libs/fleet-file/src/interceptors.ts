import { LinearPattern, PatternRefused } from '@toolfleet/bounded-schema';
import { memberPath, type Fault } from './faults.js';
import type { InterceptorSettings } from './schema.js';

/** Fields that only some kinds have, and those that a kind must have. */
const KINDS: Record<
  InterceptorSettings['kind'],
  { own: (keyof InterceptorSettings)[]; required: (keyof InterceptorSettings)[] }
> = {
  content: { own: ['find', 'patterns', 'action', 'strip_control_characters', 'mark_untrusted'], required: [] },
  http: { own: ['url', 'token_file', 'at'], required: ['url', 'at'] },
  module: { own: ['file', 'at'], required: ['file', 'at'] },
};
const OWN = new Set(Object.values(KINDS).flatMap(({ own }) => own));

/** Rules between fields of interceptors, beyond the schema. A mandatory one watches every call and is never left out. */
export function findInterceptorFaults(interceptors: { [name: string]: InterceptorSettings }): Fault[] {
  return Object.entries(interceptors).flatMap(([name, one]) => {
    const path = memberPath('interceptors', name);
    const { own, required } = KINDS[one.kind];
    const faults: Fault[] = [];
    const refuse = (keys: (keyof InterceptorSettings)[], message: string): void =>
      void faults.push(...keys.map((key) => ({ path: `${path}.${key}`, message })));
    const among = (...keys: (keyof InterceptorSettings)[]) => keys.filter((key) => one[key] !== undefined);
    const foreign = [...OWN].filter((key) => one[key] !== undefined && !own.includes(key));
    refuse(foreign, `does not belong to an interceptor of kind ${one.kind}`);
    const missing = required.filter((key) => one[key] === undefined);
    refuse(missing, `is missing; an interceptor of kind ${one.kind} needs it`);
    if (one.mandatory) {
      refuse(among('tools', 'toolsets'), 'narrows an interceptor that is mandatory');
      if (one.on_failure === 'open') refuse(['on_failure'], 'must be closed in an interceptor that is mandatory');
    }
    const relative = among('file', 'token_file').filter((key) => !String(one[key]).startsWith('/'));
    refuse(relative, 'must be an absolute path');
    return [...faults, ...findPatternFaults(one, path)];
  });
}

function findPatternFaults({ patterns = {} }: InterceptorSettings, path: string): Fault[] {
  return Object.entries(patterns).flatMap(([name, source]) => {
    try {
      new LinearPattern(source);
      return [];
    } catch (error) {
      if (!(error instanceof PatternRefused)) throw error;
      return [{ path: memberPath(`${path}.patterns`, name), message: `is not a pattern of RE2: ${error.message}` }];
    }
  });
}
