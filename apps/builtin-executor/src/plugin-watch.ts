import { toolsetOf, type PluginFolder, type ToolRunner } from '@toolfleet/builtin-tools';
import type { Milliseconds } from '@toolfleet/contracts';
import type { Toolset } from '@toolfleet/contracts/tool-definition';
import type { Clock } from '@toolfleet/resilience';
import type { LifecycleComponent } from '@toolfleet/service';
import type { Logger } from '@toolfleet/telemetry';

/** Loads the plugin folder at start and, when told so, looks at it again and again. */
export class PluginWatch implements LifecycleComponent {
  readonly name = 'plugins';
  private readonly stopped = new AbortController();
  private readonly loaded = new Set<string>();
  private loop: Promise<void> = Promise.resolve();

  constructor(
    private readonly folder: PluginFolder,
    private readonly toolbox: ToolRunner,
    private readonly toolsets: readonly Toolset[],
    private readonly clock: Clock,
    private readonly logger: Logger,
    /** Undefined: loaded once. */
    private readonly everyMs: Milliseconds | undefined,
    /** Called after the tools changed. */
    private readonly onChange: () => void,
  ) {}

  /** Names of tools that came from the folder. */
  get names(): ReadonlySet<string> {
    return this.loaded;
  }

  async start(): Promise<void> {
    await this.look();
    if (this.everyMs !== undefined) this.loop = this.watch(this.everyMs);
  }

  async stop(): Promise<void> {
    this.stopped.abort();
    await this.loop;
  }

  private async watch(everyMs: Milliseconds): Promise<void> {
    while (!this.stopped.signal.aborted) {
      await this.clock.sleep(everyMs, this.stopped.signal).catch(() => undefined);
      if (!this.stopped.signal.aborted)
        await this.look().catch((error: unknown) => this.logger.warn({ error }, 'the plugin folder cannot be read'));
    }
  }

  private async look(): Promise<void> {
    const { added, removed, faults } = await this.folder.look();
    for (const { file, message: reason } of faults) this.logger.error({ file, reason }, 'a plugin cannot be loaded');
    for (const name of removed) {
      this.toolbox.remove(name);
      this.loaded.delete(name);
    }
    for (const tool of added) {
      const { name } = tool.metadata;
      if (!this.toolsets.includes(toolsetOf(tool))) continue; // another process serves it
      try {
        this.toolbox.add(tool);
        this.loaded.add(name);
        this.logger.info({ tool: name }, 'plugin loaded');
      } catch (error) {
        this.logger.error({ tool: name, reason: (error as Error).message }, 'a plugin cannot be loaded');
      }
    }
    if (added.length + removed.length > 0) this.onChange();
  }
}
