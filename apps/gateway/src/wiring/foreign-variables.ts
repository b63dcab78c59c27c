import { environmentByPrefix, processEnvironment } from '@toolfleet/service';

/** Families of Shannon's variables, of which only some are settings here. */
const FAMILIES = ['ENFORCE_', 'APPROVAL_'];
const OTHERS = ['MCP_COST_TO_TOKENS', 'PYTHON_EXECUTOR_MODE'];

/**
 * A line for each variable of Shannon that is set and has no effect: a caller who set `APPROVAL_ENABLED` believes that somebody is asked.
 * @param own the settings of the gateway, the only service that reads variables of these families
 */
export function foreignVariables(own: ReadonlySet<string>, environment = processEnvironment()): string[] {
  const ofFamilies = FAMILIES.flatMap((prefix) =>
    [...environmentByPrefix(prefix, environment).keys()].map((rest) => prefix + rest),
  );
  return [...ofFamilies, ...OTHERS.filter((name) => environment[name])]
    .filter((name) => !own.has(name.replace(/_FILE$/, '')))
    .map((name) => `${name} has no effect; docs/coming-from-elsewhere.md names what does the same`);
}
