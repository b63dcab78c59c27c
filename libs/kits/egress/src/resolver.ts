import { lookup } from 'node:dns/promises';
import { isIP } from 'node:net';
import { RecentMap, type Clock } from '@toolfleet/base';

/** Resolves host names. Tests inject their own. */
export abstract class Resolver {
  /** All addresses of the name, in the order to try. Rejects if the name does not resolve. */
  abstract resolve(host: string): Promise<string[]>;
}

/** The operating system's resolver. */
export class SystemResolver extends Resolver {
  override async resolve(host: string): Promise<string[]> {
    const answers = await lookup(host, { all: true });
    return answers.map((answer) => answer.address);
  }
}

/**
 * Caches addresses for `ttlMs` and shares one lookup among concurrent callers. Failures are not cached, and neither is the
 * decision of the address guard: every dial checks its address again.
 */
export class CachingResolver extends Resolver {
  private readonly cache = new RecentMap<string, { addresses: string[]; freshUntil: number }>({ max: 1_000 });
  private readonly pending = new Map<string, Promise<string[]>>();

  constructor(
    private readonly inner: Resolver,
    private readonly clock: Clock,
    private readonly ttlMs: number,
  ) {
    super();
  }

  override async resolve(host: string): Promise<string[]> {
    if (isIP(host) !== 0) return [host];
    const hit = this.cache.get(host);
    if (hit && hit.freshUntil > this.clock.monotonic()) return hit.addresses;
    return this.pending.get(host) ?? this.lookup(host);
  }

  /** Drops a name with addresses that could not be reached, so that the next dial resolves it again. */
  forget(host: string): void {
    this.cache.delete(host);
  }

  private lookup(host: string): Promise<string[]> {
    const pending = this.inner
      .resolve(host)
      .then((addresses) => {
        this.cache.delete(host);
        if (addresses.length > 0) {
          this.cache.set(host, { addresses, freshUntil: this.clock.monotonic() + this.ttlMs });
        }
        return addresses;
      })
      .finally(() => this.pending.delete(host));
    this.pending.set(host, pending);
    return pending;
  }
}
