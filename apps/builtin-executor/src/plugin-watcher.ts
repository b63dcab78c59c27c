import { getToolset, type PluginFolder, type ToolRunner } from '@toolfleet/builtin-tools';
import type { Milliseconds } from '@toolfleet/contracts';
import type { Toolset } from '@toolfleet/contracts/tool-definition';
import { Rounds, type Clock } from '@toolfleet/resilience';
import type { LifecycleComponent, ServiceFaults } from '@toolfleet/service';
import type { Logger } from '@toolfleet/telemetry';

/** Dependencies of the watcher. */
interface PluginWatcherDeps {
  folder: PluginFolder;
  runner: ToolRunner;
  /** Toolsets of this process; plugins of other toolsets are left to other processes. */
  toolsets: readonly Toolset[];
  clock: Clock;
  logger: Logger;
  faults: ServiceFaults;
  /** How often the folder is read again; undefined: only at start. */
  everyMs: Milliseconds | undefined;
  /** Called after the tools changed. */
  onChange: () => void;
}

/** Loads the plugin folder at start, and again in intervals where one is configured. */
export class PluginWatcher implements LifecycleComponent {
  readonly name = 'plugins';
  private readonly loaded = new Set<string>();
  /** Tools of loaded files that this process cannot run, with the reason. */
  private readonly refused = new Map<string, string>();
  private readonly rounds: Rounds | undefined;

  constructor(private readonly deps: PluginWatcherDeps) {
    const { clock, logger, faults, everyMs } = deps;
    const onFailure = (error: unknown): void => {
      logger.warn({ error }, 'the plugin folder cannot be read');
      faults.set('plugins', [`the plugin folder cannot be read: ${String(error)}`]);
    };
    if (everyMs !== undefined) this.rounds = new Rounds({ clock, everyMs, work: () => this.reload(), onFailure });
  }

  /** Names of the tools loaded from the folder. */
  get names(): ReadonlySet<string> {
    return this.loaded;
  }

  async start(): Promise<void> {
    await this.reload();
    this.rounds?.start();
  }

  async stop(): Promise<void> {
    await this.rounds?.stop();
  }

  private async reload(): Promise<void> {
    const { folder, runner, toolsets, logger, onChange } = this.deps;
    const { added, removed, faults: found } = await folder.look();
    for (const { file, message: reason } of found) logger.error({ file, reason }, 'a plugin cannot be loaded');
    for (const name of removed) {
      runner.remove(name);
      this.loaded.delete(name);
      this.refused.delete(name);
    }
    for (const tool of added) {
      const { name } = tool.metadata;
      if (!toolsets.includes(getToolset(tool))) continue;
      this.refused.delete(name);
      try {
        runner.add(tool);
        this.loaded.add(name);
        logger.info({ tool: name }, 'plugin loaded');
      } catch (error) {
        const reason = (error as Error).message;
        logger.error({ tool: name, reason }, 'a plugin cannot be loaded');
        this.refused.set(name, reason);
      }
    }
    const unloadable = folder.faults().map(({ file, message }) => `${file} cannot be loaded: ${message}`);
    const refused = [...this.refused].map(([name, reason]) => `${name} cannot be loaded: ${reason}`);
    this.deps.faults.set('plugins', [...unloadable, ...refused]);
    if (added.length + removed.length > 0) onChange();
  }
}
