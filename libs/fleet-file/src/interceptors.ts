import { LinearPattern, PatternRefused } from '@toolfleet/bounded-schema';
import { memberPath, type Fault } from './faults.js';

/** One interceptor; docs/interceptors.md describes the fields. */
export interface InterceptorSettings {
  kind: 'content' | 'http' | 'module';
  mandatory?: boolean;
  tools?: string[];
  toolsets?: string[];
  timeout_ms?: number;
  on_failure?: 'open' | 'closed';
  at?: ('call' | 'attempt' | 'result')[];
  find?: ('secrets' | 'personal_data')[];
  patterns?: { [name: string]: string };
  action?: 'mask' | 'withhold';
  strip_control_characters?: boolean;
  mark_untrusted?: boolean;
  url?: string;
  token_file?: string;
  file?: string;
}

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

/** What the schema of interceptors cannot say: which fields go together. */
export function findInterceptorFaults(interceptors: { [name: string]: InterceptorSettings }): Fault[] {
  return Object.entries(interceptors).flatMap(([name, one]) => {
    const path = memberPath('interceptors', name);
    const { own, required } = KINDS[one.kind];
    const present = Object.keys(one) as (keyof InterceptorSettings)[];
    const foreign = present.filter((key) => OWN.has(key) && !own.includes(key));
    const missing = required.filter((key) => one[key] === undefined);
    return [
      ...foreign.map((key) => ({
        path: `${path}.${key}`,
        message: `does not belong to an interceptor of kind ${one.kind}`,
      })),
      ...missing.map((key) => ({
        path: `${path}.${key}`,
        message: `is missing; an interceptor of kind ${one.kind} needs it`,
      })),
      ...findMandatoryFaults(one, path),
      ...findFileFaults(one, path),
      ...findPatternFaults(one, path),
    ];
  });
}

/** A mandatory interceptor watches every call and is never left out. */
function findMandatoryFaults(one: InterceptorSettings, path: string): Fault[] {
  if (!one.mandatory) return [];
  const narrowed = (['tools', 'toolsets'] as const).filter((key) => one[key] !== undefined);
  const faults = narrowed.map((key) => ({
    path: `${path}.${key}`,
    message: 'narrows an interceptor that is mandatory',
  }));
  if (one.on_failure !== 'open') return faults;
  return [...faults, { path: `${path}.on_failure`, message: 'must be closed in an interceptor that is mandatory' }];
}

function findFileFaults(one: InterceptorSettings, path: string): Fault[] {
  return (['file', 'token_file'] as const)
    .filter((key) => one[key] !== undefined && !one[key].startsWith('/'))
    .map((key) => ({ path: `${path}.${key}`, message: 'must be an absolute path' }));
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
