import { ProtocolError, type Client } from '@modelcontextprotocol/client';
import type { Milliseconds } from '@toolfleet/contracts';
import type { Clock } from '@toolfleet/resilience';
import type { UpstreamSession } from './mcp-session.js';
import type { McpTarget } from './mcp-target.js';
import type { UpstreamWatch } from './resource-watches.js';
import type { SessionPool } from './session-pool.js';

/** Shortest time between two updates of a resource: a server cannot flood the fleet. */
const COLLECT_MS: Milliseconds = 100;
/** Shortest and longest wait before the next connection. */
const RETRY_MS = { least: 1_000, most: 60_000 };
/** How often a server of the 2025 revisions is asked whether the session still exists: nothing else would tell. */
const PING_MS: Milliseconds = 15_000;

/**
 * The subscription to resources of one source, on the session that its calls use, because some servers tell only the session that caused
 * an update: in 2026-07-28 one `subscriptions/listen` for all of them, before that one `resources/subscribe` each. When the connection is
 * lost, it subscribes again. Each resource is reported as updated when its subscription begins, because it may have changed before.
 */
export class SourceWatch implements UpstreamWatch {
  readonly #closing = new AbortController();
  /** Addresses to report at the next collection. */
  readonly #updated = new Set<string>();
  #wanted: ReadonlySet<string> = new Set();
  #wake: () => void = () => undefined;

  constructor(
    private readonly pool: SessionPool,
    private readonly target: McpTarget,
    private readonly clock: Clock,
    private readonly onUpdated: (uri: string) => void,
  ) {
    void this.#run();
  }

  want(uris: ReadonlySet<string>): void {
    this.#wanted = uris;
    this.#wake();
  }

  close(): void {
    this.#closing.abort();
    this.#wake();
  }

  /** Connects again and again until it is closed. */
  async #run(): Promise<void> {
    const { signal } = this.#closing;
    for (let waitMs = RETRY_MS.least; !signal.aborted; waitMs = Math.min(2 * waitMs, RETRY_MS.most)) {
      let used: UpstreamSession | undefined;
      try {
        await this.pool.use(this.target, '', (session) => {
          used = session;
          waitMs = RETRY_MS.least;
          return this.#follow(session.client);
        });
      } catch {
        // Unreachable or lost: the next attempt follows.
      }
      if (signal.aborted) return;
      this.pool.retire(this.target, used, false);
      await this.clock.sleep(waitMs, signal).catch(() => undefined);
    }
  }

  /** Subscribes on a session to the wanted resources. Resolves or rejects when the session is lost; resolves when this is closed. */
  async #follow(client: Client): Promise<void> {
    let isLost = false;
    const lose = (): void => {
      isLost = true;
      this.#wake();
    };
    const { onclose } = client;
    client.onclose = () => {
      onclose?.();
      lose();
    };
    client.setNotificationHandler('notifications/resources/updated', ({ params }) => this.#report(params.uri));
    const subscription =
      client.getProtocolEra() === 'modern' ? new ListenStream(client, lose) : new SubscribeRequests(client, lose);
    while (!isLost && !this.#closing.signal.aborted) {
      const woken = new Promise<void>((resolve) => (this.#wake = resolve));
      const cancelPing = this.clock.after(PING_MS, this.#wake);
      for (const uri of await subscription.follow(this.#wanted)) this.#report(uri);
      await woken;
      cancelPing();
    }
    if (!isLost) await subscription.close();
  }

  #report(uri: string): void {
    if (!this.#wanted.has(uri)) return;
    if (this.#updated.size === 0) {
      this.clock.after(COLLECT_MS, () => {
        const updated = [...this.#updated];
        this.#updated.clear();
        if (!this.#closing.signal.aborted) updated.forEach(this.onUpdated);
      });
    }
    this.#updated.add(uri);
  }
}

/** The addresses of `wanted` that `known` lacks. */
const missingIn = (known: ReadonlySet<string>, wanted: ReadonlySet<string>): string[] =>
  [...wanted].filter((uri) => !known.has(uri));

/** 2026-07-28: one stream, replaced without a gap when other resources are wanted. */
class ListenStream {
  #stream: Awaited<ReturnType<Client['listen']>> | undefined;
  #known: ReadonlySet<string> = new Set();

  constructor(
    private readonly client: Client,
    private readonly lose: () => void,
  ) {}

  /** @returns addresses of new subscriptions */
  async follow(wanted: ReadonlySet<string>): Promise<string[]> {
    const begun = missingIn(this.#known, wanted);
    if (begun.length === 0 && this.#known.size === wanted.size) return [];
    const next = await this.client.listen({ resourceSubscriptions: [...wanted] });
    void next.closed.then((cause) => cause === 'local' || this.lose());
    await this.#stream?.close();
    this.#stream = next;
    this.#known = wanted;
    return begun;
  }

  async close(): Promise<void> {
    await this.#stream?.close();
  }
}

/** The 2025 revisions: a request for each resource, and updates on the stream of the session. */
class SubscribeRequests {
  readonly #known = new Set<string>();

  constructor(
    private readonly client: Client,
    lose: () => void,
  ) {
    client.onerror = lose;
  }

  /** @returns addresses of new subscriptions */
  async follow(wanted: ReadonlySet<string>): Promise<string[]> {
    const begun = missingIn(this.#known, wanted);
    if (begun.length === 0) await this.client.ping();
    for (const uri of begun) {
      await orRefused(this.client.subscribeResource({ uri }));
      this.#known.add(uri);
    }
    await this.#unsubscribe(missingIn(wanted, this.#known));
    return begun;
  }

  /** The session goes on for calls. */
  close(): Promise<void> {
    return this.#unsubscribe([...this.#known]);
  }

  async #unsubscribe(uris: readonly string[]): Promise<void> {
    for (const uri of uris) {
      await orRefused(this.client.unsubscribeResource({ uri }));
      this.#known.delete(uri);
    }
  }
}

/** A server may refuse single resources. @throws whatever else goes wrong */
async function orRefused(request: Promise<unknown>): Promise<void> {
  await request.catch((error: unknown) => {
    if (!(error instanceof ProtocolError)) throw error;
  });
}
