import type { JsonObject } from '@toolfleet/contracts';
import type { FleetDeclaration } from '@toolfleet/client';
import { differences, type Current, type Kind, type Wanted } from './resources.js';

/** What applying does to one resource. `keep`: nothing, except that the declaration may come to own it; `release`: it no longer does. */
export interface Step {
  action: 'add' | 'change' | 'keep' | 'remove' | 'release';
  id: string;
  /** Place in the files, or the id of a resource that they no longer declare. */
  path: string;
  differences: string[];
  /** Why it cannot be done, with the remedy. */
  obstacle?: string;
  /** @returns the note for the declaration; undefined: it no longer owns the resource */
  run(): Promise<string | undefined>;
}

/**
 * Compares files with the fleet: resources that are declared in the order of their kinds, then those that this declaration owned before,
 * in the reverse order.
 * @param owned earlier resources of this declaration
 * @param others declarations that may own a resource instead
 */
export async function makePlan(
  kinds: readonly Kind[],
  owned: Readonly<Record<string, string>>,
  others: readonly FleetDeclaration[],
): Promise<Step[]> {
  const steps: Step[] = [];
  const declared = new Set<string>();
  for (const { wanted, current } of kinds)
    for (const one of wanted) {
      declared.add(one.id);
      const owner = others.find((other) => Object.hasOwn(other.owned, one.id));
      const step = await compare(one, current.get(one.id), owned[one.id]);
      steps.push(
        owner ? { ...step, obstacle: `is owned by the declaration ${owner.name}; remove it there first` } : step,
      );
    }
  for (const { current } of kinds.toReversed())
    for (const id of Object.keys(owned))
      if (!declared.has(id) && current.has(id)) steps.push(removal(current.get(id)!));
  return steps;
}

async function compare(wanted: Wanted, current: Current | undefined, note: string | undefined): Promise<Step> {
  const { id, path, value } = wanted;
  const before = current && !current.isConfigured ? await current.read() : undefined;
  const hidden = current && (await wanted.hiddenChange?.(note));
  const found = [...differences(before, value), ...(hidden ? [hidden] : [])];
  const action = !current ? 'add' : found.length > 0 ? 'change' : 'keep';
  const obstacle = current?.isConfigured
    ? 'is declared in the configuration file of the operator; remove it there, or choose another name'
    : wanted.obstacle?.(current, action !== 'keep');
  const run = async () => (action === 'keep' ? (current?.note ?? note ?? '') : wanted.put(current));
  return { action, id, path, differences: found, run, ...(obstacle === undefined ? {} : { obstacle }) };
}

function removal({ id, remove }: Current): Step {
  const run = async () => {
    await remove?.();
    return undefined;
  };
  return { action: remove ? 'remove' : 'release', id, path: id, differences: [], run };
}

/** Steps as JSON, for scripts. */
export const toJson = ({ action, id, path, differences: found, obstacle }: Step): JsonObject => ({
  action,
  id,
  path,
  differences: found,
  ...(obstacle === undefined ? {} : { obstacle }),
});
