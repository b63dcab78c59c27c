import { ToolError } from '@toolfleet/contracts';
import type { PythonJobPolicy } from '@toolfleet/contracts/execution';
import { PYTHON_MODULES_KEY } from '@toolfleet/contracts/subjects';
import { MODULE_NAME } from '@toolfleet/fleet-file';
import type { LifecycleComponent, ServiceHost } from '@toolfleet/service';
import type { Redis } from 'ioredis';
import { orUnavailable } from '@toolfleet/queue/redis';

/** By level: only `strict` has a list. */
type ModuleLists = PythonJobPolicy['extra_allowed_modules'];

/** Hash of added modules as JSON, in the field `strict`; on Redis Cluster in the slot of the queues that Python calls need anyway. */
const KEY = '{fleet}:python-modules';
const MAX_MODULES = 200;
/** How often the gateway looks for the list of a sandbox, until there is one. */
const LOOK_MS = 1_000;

/**
 * Modules that Python runs may import in addition at `strict`: from the configuration file, and those
 * that an operator adds while the fleet runs. Each Python call reads them, so a change applies to the next call on every gateway,
 * and sandboxes get them with the job.
 */
export class PythonModules {
  /** Of the interpreter, once a sandbox has published them. */
  private available: readonly string[] | undefined;

  constructor(
    private readonly redis: Redis,
    /** Section `code_execution` of the configuration file. */
    private readonly configured: PythonJobPolicy,
  ) {}

  /** The policy of the next job. @throws ToolError SERVICE_UNAVAILABLE */
  async policy(): Promise<PythonJobPolicy> {
    const added = await this.added();
    const { extra_allowed_modules: own } = this.configured;
    const lacking = new Set(this.lacking(own.strict));
    const strict = [...new Set([...own.strict, ...added.strict])].filter((name) => !lacking.has(name));
    return { ...this.configured, extra_allowed_modules: { strict } };
  }

  /** Both sources, and the interpreter's modules. @throws ToolError SERVICE_UNAVAILABLE */
  async list(): Promise<{ configured: ModuleLists; added: ModuleLists; available: string[] | null }> {
    const [added, available] = await Promise.all([this.added(), this.readAvailable()]);
    return { configured: this.configured.extra_allowed_modules, added, available: available ? [...available] : null };
  }

  /** Reports configured modules that the interpreter lacks; they are not allowed to any run. */
  asComponent({ clock, faults, logger }: ServiceHost): LifecycleComponent {
    let cancel = () => {};
    const look = async (): Promise<void> => {
      if (!(await this.readAvailable().catch(() => undefined))) {
        cancel = clock.after(LOOK_MS, () => void look());
        return;
      }
      const lacking = this.lacking(this.configured.extra_allowed_modules.strict);
      if (lacking.length === 0) return;
      const message = `code_execution.extra_allowed_modules: ${this.refusalOf(lacking)}`;
      logger.warn(message);
      faults.set('python modules', [message]);
    };
    return { name: 'python modules', start: look, stop: async () => cancel() };
  }

  /** Replaces the modules added to a level. @throws ToolError REQUEST_INVALID, SERVICE_UNAVAILABLE */
  async replace(level: string, modules: readonly string[]): Promise<void> {
    if (level !== 'strict')
      throw new ToolError('REQUEST_INVALID', { message: 'level must be strict: standard allows every module' });
    const wrong = modules.find((name) => !MODULE_NAME.test(name));
    await this.readAvailable();
    const lacking = this.lacking(modules);
    if (wrong !== undefined || modules.length > MAX_MODULES || lacking.length > 0) {
      const size = lacking.length > 0 ? this.refusalOf(lacking) : `at most ${MAX_MODULES} are allowed`;
      const reason = wrong === undefined ? size : `${JSON.stringify(wrong)} is not a module name`;
      throw new ToolError('REQUEST_INVALID', { message: `modules: ${reason}`, details: { fields: ['modules'] } });
    }
    const sorted = [...new Set(modules)].toSorted();
    await orUnavailable('The list of Python modules', this.redis.hset(KEY, level, JSON.stringify(sorted)));
  }

  private async readAvailable(): Promise<readonly string[] | undefined> {
    const stored = await orUnavailable('The list of Python modules', this.redis.get(PYTHON_MODULES_KEY));
    if (stored !== null) this.available = JSON.parse(stored) as string[];
    return this.available;
  }

  private lacking(modules: readonly string[]): string[] {
    const { available } = this;
    return available ? modules.filter((name) => !available.includes(name.split('.', 1)[0]!)) : [];
  }

  private refusalOf(lacking: readonly string[]): string {
    return `the interpreter lacks ${lacking.join(', ')}; it has ${(this.available ?? []).join(', ')}`;
  }

  private async added(): Promise<ModuleLists> {
    const stored = await orUnavailable('The list of Python modules', this.redis.hget(KEY, 'strict'));
    return { strict: JSON.parse(stored ?? '[]') as string[] };
  }
}
