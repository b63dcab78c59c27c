import { LinearPattern, PatternRefused } from '@toolfleet/bounded-schema';
import { memberPath, type Fault } from './faults.js';

/** One guard; docs/guards.md describes the fields. */
export interface GuardSettings {
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
const KINDS: Record<GuardSettings['kind'], { own: (keyof GuardSettings)[]; required: (keyof GuardSettings)[] }> = {
  content: { own: ['find', 'patterns', 'action', 'strip_control_characters', 'mark_untrusted'], required: [] },
  http: { own: ['url', 'token_file', 'at'], required: ['url', 'at'] },
  module: { own: ['file', 'at'], required: ['file', 'at'] },
};
const OWN = new Set(Object.values(KINDS).flatMap(({ own }) => own));

/** What the schema of guards cannot say: which fields go together. */
export function findGuardFaults(guards: { [name: string]: GuardSettings }): Fault[] {
  return Object.entries(guards).flatMap(([name, guard]) => {
    const path = memberPath('guards', name);
    const { own, required } = KINDS[guard.kind];
    const present = Object.keys(guard) as (keyof GuardSettings)[];
    const foreign = present.filter((key) => OWN.has(key) && !own.includes(key));
    const missing = required.filter((key) => guard[key] === undefined);
    return [
      ...foreign.map((key) => ({
        path: `${path}.${key}`,
        message: `does not belong to a guard of kind ${guard.kind}`,
      })),
      ...missing.map((key) => ({
        path: `${path}.${key}`,
        message: `is missing; a guard of kind ${guard.kind} needs it`,
      })),
      ...findMandatoryFaults(guard, path),
      ...findFileFaults(guard, path),
      ...findPatternFaults(guard, path),
    ];
  });
}

/** A mandatory guard stands before every call and is never left out. */
function findMandatoryFaults(guard: GuardSettings, path: string): Fault[] {
  if (!guard.mandatory) return [];
  const narrowed = (['tools', 'toolsets'] as const).filter((key) => guard[key] !== undefined);
  const faults = narrowed.map((key) => ({ path: `${path}.${key}`, message: 'narrows a guard that is mandatory' }));
  if (guard.on_failure !== 'open') return faults;
  return [...faults, { path: `${path}.on_failure`, message: 'must be closed in a guard that is mandatory' }];
}

function findFileFaults(guard: GuardSettings, path: string): Fault[] {
  return (['file', 'token_file'] as const)
    .filter((key) => guard[key] !== undefined && !guard[key].startsWith('/'))
    .map((key) => ({ path: `${path}.${key}`, message: 'must be an absolute path' }));
}

function findPatternFaults({ patterns = {} }: GuardSettings, path: string): Fault[] {
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
