import { isJsonObject, type Json } from '@toolfleet/contracts';
import type { PythonJobPolicy, Strictness } from '@toolfleet/contracts/execution';

const LEVELS: readonly Strictness[] = ['lenient', 'standard', 'strict'];
const MODULE = /^[A-Za-z_][A-Za-z0-9_.]{0,99}$/;

/**
 * Section `code_execution` of the configuration file.
 * @throws Error naming every fault
 */
export function readPythonPolicy(section: Json | undefined): PythonJobPolicy {
  const policy: PythonJobPolicy = {
    default_strictness: 'standard',
    extra_allowed_modules: { standard: [], strict: [] },
  };
  if (section === undefined || section === null) return policy;
  if (!isJsonObject(section)) throw new Error('code_execution must be a mapping');
  const faults: string[] = [];
  for (const [key, value] of Object.entries(section)) {
    if (key === 'default_strictness' && LEVELS.includes(value as Strictness))
      policy.default_strictness = value as Strictness;
    else if (key === 'extra_allowed_modules' && isJsonObject(value)) readModules(value, policy, faults);
    else faults.push(`code_execution.${key} is not understood`);
  }
  if (faults.length > 0) throw new Error(faults.join('; '));
  return policy;
}

function readModules(lists: Record<string, Json>, policy: PythonJobPolicy, faults: string[]): void {
  for (const [level, modules] of Object.entries(lists)) {
    const place = `code_execution.extra_allowed_modules.${level}`;
    if (level !== 'standard' && level !== 'strict') faults.push(`${place} is not a level with a list`);
    else if (!Array.isArray(modules) || modules.some((name) => typeof name !== 'string' || !MODULE.test(name)))
      faults.push(`${place} must be a list of module names`);
    else policy.extra_allowed_modules[level] = modules as string[];
  }
}
