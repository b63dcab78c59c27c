import { ToolError } from '@toolfleet/contracts';
import type { PythonJobPolicy } from '@toolfleet/contracts/execution';
import { MODULE_NAME } from '@toolfleet/fleet-file';
import type { Redis } from 'ioredis';
import { orUnavailable } from '@toolfleet/queue/redis';

/** Levels of `execute_python` that have a list of modules. */
const MODULE_LEVELS = ['standard', 'strict'] as const;
type ModuleLevel = (typeof MODULE_LEVELS)[number];
type ModuleLists = Record<ModuleLevel, string[]>;

/** Hash of added modules as JSON, by level; on Redis Cluster in the slot of the queues, which Python calls need anyway. */
const KEY = '{fleet}:python-modules';
const MAX_MODULES = 200;

/**
 * Modules that Python runs may import in addition to the lists of their strictness: those of the configuration file, and those
 * that an operator adds while the fleet runs. Each Python call reads them, so a change applies to the next call on every gateway,
 * and sandboxes get them with the job.
 */
export class PythonModules {
  constructor(
    private readonly redis: Redis,
    /** Section `code_execution` of the configuration file. */
    private readonly configured: PythonJobPolicy,
  ) {}

  /** The policy of the next job. @throws ToolError SERVICE_UNAVAILABLE */
  async policy(): Promise<PythonJobPolicy> {
    const added = await this.added();
    const { extra_allowed_modules: own } = this.configured;
    const merged = (level: ModuleLevel) => [...new Set([...own[level], ...added[level]])];
    return {
      ...this.configured,
      extra_allowed_modules: { standard: merged('standard'), strict: merged('strict') },
    };
  }

  /** Both sources. @throws ToolError SERVICE_UNAVAILABLE */
  async list(): Promise<{ configured: ModuleLists; added: ModuleLists }> {
    return { configured: this.configured.extra_allowed_modules, added: await this.added() };
  }

  /** Replaces the modules added to a level. @throws ToolError REQUEST_INVALID, SERVICE_UNAVAILABLE */
  async replace(level: string, modules: readonly string[]): Promise<void> {
    if (!MODULE_LEVELS.some((known) => known === level))
      throw new ToolError('REQUEST_INVALID', { message: `level must be one of ${MODULE_LEVELS.join(', ')}` });
    const wrong = modules.find((name) => !MODULE_NAME.test(name));
    if (wrong !== undefined || modules.length > MAX_MODULES) {
      const reason =
        wrong === undefined ? `at most ${MAX_MODULES} are allowed` : `${JSON.stringify(wrong)} is not a module name`;
      throw new ToolError('REQUEST_INVALID', { message: `modules: ${reason}`, details: { fields: ['modules'] } });
    }
    const sorted = [...new Set(modules)].toSorted();
    await orUnavailable('The list of Python modules', this.redis.hset(KEY, level, JSON.stringify(sorted)));
  }

  private async added(): Promise<ModuleLists> {
    const stored = await orUnavailable('The list of Python modules', this.redis.hgetall(KEY));
    const read = (level: ModuleLevel) => JSON.parse(stored[level] ?? '[]') as string[];
    return { standard: read('standard'), strict: read('strict') };
  }
}
