import { isJsonObject } from '@toolfleet/contracts';
import type { PythonJobPolicy } from '@toolfleet/contracts/execution';
import type { RegisteredTool } from '@toolfleet/contracts/tool-definition';
import type { FleetFile } from '@toolfleet/fleet-file';

/** The sandbox policy of section `code_execution`. */
export function pythonPolicy({
  default_strictness: strictness = 'standard',
  extra_allowed_modules: { strict = [] } = {},
}: FleetFile['code_execution']): PythonJobPolicy {
  return { default_strictness: strictness, extra_allowed_modules: { strict } };
}

/**
 * Completes the definitions of sandbox tools with the settings of this fleet: the default strictness, the memory limit, and the packages
 * that programs of a tenant can import. The default is part of the definition so that the policy, the time limit and every list see
 * the strictness that will run.
 * @param memoryLimitMb upper bound; a definition can only lower it
 */
export function withPythonDefaults(
  { default_strictness: strictness }: Pick<PythonJobPolicy, 'default_strictness'>,
  memoryLimitMb: number,
  packages: FleetFile['python_packages'],
): (tool: RegisteredTool, tenantId: string) => RegisteredTool {
  return (definition, tenantId) => {
    const isProgram = definition.binding.kind === 'program';
    if (definition.binding.kind !== 'python' && !isProgram) return definition;
    const tool = { ...definition, description: `${definition.description}${packagesText(packages, tenantId)}` };
    const memory_limit_mb = Math.min(tool.memory_limit_mb ?? memoryLimitMb, memoryLimitMb);
    if (isProgram) return { ...tool, memory_limit_mb };
    const { input_schema: schema } = tool;
    const properties = isJsonObject(schema.properties) ? { ...schema.properties } : {};
    if (isJsonObject(properties.strictness)) {
      properties.strictness = { ...properties.strictness, default: strictness };
    }
    return { ...tool, input_schema: { ...schema, properties }, memory_limit_mb };
  };
}

function packagesText(packages: FleetFile['python_packages'], tenantId: string): string {
  const names = Object.entries(packages)
    .filter(([, { tenants }]) => tenants?.includes(tenantId) ?? true)
    .map(([name, { version }]) => `${name} ${version}`);
  return names.length === 0 ? '' : ` Installed packages: ${names.join(', ')}.`;
}
