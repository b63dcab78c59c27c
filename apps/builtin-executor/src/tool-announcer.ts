import type { Milliseconds } from '@toolfleet/contracts';
import type { DefinitionRegister, DefinitionRegisterReply } from '@toolfleet/contracts/registry';
import { registerSubject, SUBJECTS } from '@toolfleet/contracts/subjects';
import type { ToolDefinition, Toolset, ToolSource } from '@toolfleet/contracts/tool-definition';
import type { ServiceHost } from '@toolfleet/service';
import type { NatsClient } from '@toolfleet/transport';

/** A source and the tools it has right now. */
export interface AnnouncedSource {
  toolset: Toolset;
  source: ToolSource;
  definitions: () => ToolDefinition[];
}

/** First wait after a failed announcement; doubles up to a third of the time to live. */
const RETRY_MS = 250;
/** A starting registry asks all processes at once; their answers are spread over this time. */
const SPREAD_MS = 200;

/**
 * Announces the tools of this process to the registry: at start, a third of the time to live after each announcement, when the registry
 * restarts, and when the tools change. Announcing is idempotent; replicas announce the same source.
 */
export class ToolAnnouncer {
  readonly name = 'tool announcements';
  private readonly stopped = new AbortController();
  private wake = new AbortController();
  private loop: Promise<void> = Promise.resolve();
  /** Whether the registry has accepted every source once. */
  private announced = false;

  constructor(
    private readonly nats: NatsClient,
    private readonly host: Pick<ServiceHost, 'clock' | 'logger' | 'faults'>,
    private readonly sources: readonly AnnouncedSource[],
    private readonly ttlMs: Milliseconds,
  ) {}

  async start(): Promise<void> {
    // The subscription ends with the connection after this component.
    this.nats.subscribe(SUBJECTS.definitionAnnounce, () => this.announceSoon());
    this.loop = this.run();
  }

  async stop(): Promise<void> {
    this.stopped.abort();
    this.wake.abort();
    await this.loop;
  }

  /** Announces again without waiting for the next round. */
  announceSoon(): void {
    this.wake.abort();
  }

  private async run(): Promise<void> {
    let retryMs = RETRY_MS;
    while (!this.stopped.signal.aborted) {
      this.wake = new AbortController();
      const done = await this.announce();
      this.announced ||= done;
      retryMs = done ? RETRY_MS : Math.min(retryMs * 2, this.ttlMs / 3);
      await this.host.clock
        .sleep(done ? this.ttlMs / 3 : retryMs, this.wake.signal)
        .catch(() => this.host.clock.sleep(Math.random() * SPREAD_MS));
    }
  }

  private async announce(): Promise<boolean> {
    const outcomes = await Promise.all(this.sources.map((one) => this.announceOne(one)));
    return outcomes.every(Boolean);
  }

  private async announceOne({ toolset, source, definitions }: AnnouncedSource): Promise<boolean> {
    const message: DefinitionRegister = { source, definitions: definitions(), replace: true, ttl_ms: this.ttlMs };
    try {
      const reply = await this.nats.request<DefinitionRegisterReply>(registerSubject(toolset), message, {
        timeoutMs: 3_000,
        signal: this.stopped.signal,
      });
      const rejected = reply.refused.map(({ name, message: reason }) => `the registry rejected ${name}: ${reason}`);
      this.host.faults.set(`tools of ${source.name}`, rejected);
      for (const refused of reply.refused)
        this.host.logger.warn({ source: source.name, refused }, 'the registry rejected a tool');
      if (reply.added.length + reply.changed.length + reply.removed.length > 0) {
        const { added, changed, removed } = reply;
        this.host.logger.info({ source: source.name, added, changed, removed }, 'tools announced');
      }
      return true;
    } catch (error) {
      if (!this.stopped.signal.aborted && !this.announced)
        this.host.logger.info({ source: source.name, reason: String(error) }, 'the registry is not available yet');
      return false;
    }
  }
}
