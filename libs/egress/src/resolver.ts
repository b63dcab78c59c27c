import { lookup } from 'node:dns/promises';
import { isIP } from 'node:net';
import type { Clock } from '@toolfleet/resilience';

/** Turns a host name into addresses. Tests inject their own. */
export abstract class Resolver {
  /** All addresses of the name, in the order to try; rejects when the name does not resolve. */
  abstract resolve(host: string): Promise<string[]>;
}

/** The operating system's resolver. */
export class SystemResolver extends Resolver {
  override async resolve(host: string): Promise<string[]> {
    const answers = await lookup(host, { all: true });
    return answers.map((answer) => answer.address);
  }
}

/** Names kept at most; the oldest goes first. */
const MAX_NAMES = 1_000;

/**
 * Remembers answers for `ttlMs` and asks once for concurrent questions. Only answers are kept, never verdicts: every
 * dial is checked again, and failures are not remembered.
 */
export class CachingResolver extends Resolver {
  private readonly known = new Map<string, { addresses: string[]; freshUntil: number }>();
  private readonly asking = new Map<string, Promise<string[]>>();

  constructor(
    private readonly inner: Resolver,
    private readonly clock: Clock,
    private readonly ttlMs: number,
  ) {
    super();
  }

  override async resolve(host: string): Promise<string[]> {
    if (isIP(host) !== 0) return [host];
    const hit = this.known.get(host);
    if (hit && hit.freshUntil > this.clock.monotonic()) return hit.addresses;
    const running = this.asking.get(host) ?? this.ask(host);
    return running;
  }

  /** Drops a name whose addresses could not be reached, so that the next dial asks again. */
  forget(host: string): void {
    this.known.delete(host);
  }

  private ask(host: string): Promise<string[]> {
    const asked = this.inner
      .resolve(host)
      .then((addresses) => {
        this.known.delete(host);
        if (addresses.length > 0) {
          this.known.set(host, { addresses, freshUntil: this.clock.monotonic() + this.ttlMs });
        }
        const oldest = this.known.size > MAX_NAMES ? this.known.keys().next().value : undefined;
        if (oldest !== undefined) this.known.delete(oldest);
        return addresses;
      })
      .finally(() => this.asking.delete(host));
    this.asking.set(host, asked);
    return asked;
  }
}
