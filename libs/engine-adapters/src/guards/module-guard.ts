import { lstat } from 'node:fs/promises';
import { dirname } from 'node:path';
import { pathToFileURL } from 'node:url';
import { distrustReason } from '@toolfleet/contracts/trusted-file';
import type { Guard, ResultVerdict } from '@toolfleet/engine';
import type { GuardSettings } from '@toolfleet/fleet-file';
import { toChange } from './http-guard.js';

/** The default export of a guard's file: a function for each place that the configuration names. */
type GuardModule = Pick<Guard, 'onCall' | 'onAttempt' | 'onResult'>;

const FUNCTIONS = { call: 'onCall', attempt: 'onAttempt', result: 'onResult' } as const;

/**
 * Code of the operator's own in the gateway's process, with all its rights. Therefore the file and its folder must belong to the user of
 * the process or to root and must not be writable by others, as for plugins.
 */
export function moduleGuard({ file = '', at = [] }: GuardSettings): GuardModule & { load(): Promise<void> } {
  let loaded: GuardModule | undefined;
  const module = (): GuardModule => {
    if (!loaded) throw new Error('its file could not be loaded');
    return loaded;
  };
  const isAt = (place: keyof typeof FUNCTIONS) => at.includes(place);
  return {
    onCall: isAt('call') ? (call, signal) => toDenial(module().onCall!(call, signal)) : undefined,
    onAttempt: isAt('attempt') ? (call, signal) => toDenial(module().onAttempt!(call, signal)) : undefined,
    onResult: isAt('result')
      ? async (call, result, signal) =>
          // A copy: results may be shared with other calls.
          readVerdict(await module().onResult!(call, structuredClone(result), signal))
      : undefined,
    load: async () => {
      for (const [path, kind] of [[dirname(file), 'directory'] as const, [file, 'file'] as const]) {
        const reason = distrustReason(await lstat(path), kind);
        if (reason !== null) throw new Error(`${path} ${reason}`);
      }
      const { default: found } = (await import(pathToFileURL(file).href)) as { default?: GuardModule };
      const missing = at.filter((place) => typeof found?.[FUNCTIONS[place]] !== 'function');
      if (missing.length > 0)
        throw new Error(`its default export has no function ${missing.map((place) => FUNCTIONS[place]).join(', ')}`);
      loaded = found;
    },
  };
}

async function toDenial(given: unknown): Promise<{ deny: string } | undefined> {
  const verdict = readVerdict(await given);
  if (verdict && 'change' in verdict) throw new Error('only results can be changed');
  return verdict;
}

/** @throws Error for anything else than a verdict: code that returns `false` must not let a call pass */
function readVerdict(given: unknown): ResultVerdict {
  if (given === undefined) return undefined;
  if (typeof given === 'object' && given !== null) {
    if ('deny' in given && typeof given.deny === 'string') return { deny: given.deny.slice(0, 500) };
    if ('change' in given) return { change: toChange(given.change) };
  }
  throw new Error('its function must return nothing, { deny } or { change }');
}
