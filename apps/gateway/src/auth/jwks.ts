import { createLocalJWKSet, errors, type JSONWebKeySet, type JWTVerifyGetKey, type LocalJWKSet } from 'jose';
import type { CancelTimer, Clock } from '@toolfleet/resilience';

/** Where public keys come from: a file's text, or the issuer through the guarded client. Returns the JSON of a JWK set. */
export type JwksSource = () => Promise<string>;

/** The part of a `fetch` that is used here; `libs/egress` hands one in, bound to the issuer's host. */
export type JwksFetch = (
  url: string,
  init: { headers: Record<string, string>; signal: AbortSignal },
) => Promise<Response>;

/** After a refresh, successful or not, unknown key ids cause no other one for so long: they are free for anyone to invent. */
const COOLDOWN_MS = 30_000;
/** The keys are read again this often, whether or not tokens come, so that a withdrawn key stops working. */
const REFRESH_EVERY_MS = 300_000;
const FETCH_TIMEOUT_MS = 5_000;
const MAX_JWKS_CHARS = 1_000_000;

/** Reads a JWK set over HTTP. */
export function remoteJwks(url: string, getKeys: JwksFetch): JwksSource {
  return async () => {
    const signal = AbortSignal.timeout(FETCH_TIMEOUT_MS);
    const response = await getKeys(url, { headers: { accept: 'application/json' }, signal });
    if (response.status !== 200) throw new Error(`the key set answered HTTP ${response.status}`);
    return response.text();
  };
}

/**
 * Picks the key of a token. jose selects (by `kid`, `alg`, `use`); when to read the keys again is decided here, on our clock:
 * one refresh for an unknown `kid`, then a cooldown that also covers failed reads (jose's own covers successful ones only).
 * Concurrent callers share one read. When a refresh fails, the keys read before stay in use. Only a token whose key is not known
 * waits for a read: all others are verified at once, however long the issuer takes to answer.
 */
export class JwksKeys {
  private current?: LocalJWKSet;
  private triedAt = Number.NEGATIVE_INFINITY;
  private reading?: Promise<void>;
  private cancelTimer?: CancelTimer;

  constructor(
    private readonly source: JwksSource,
    private readonly clock: Clock,
  ) {}

  /** Reads the keys now; called at boot so that a bad file or address is seen there. */
  async load(): Promise<void> {
    await (this.reading ??= this.read().finally(() => (this.reading = undefined)));
  }

  /** Reads the keys again from time to time, until `stop`. */
  start(): void {
    this.cancelTimer = this.clock.after(REFRESH_EVERY_MS, () => {
      void this.load()
        .catch(() => undefined)
        .finally(() => this.cancelTimer && this.start());
    });
  }

  stop(): void {
    this.cancelTimer?.();
    delete this.cancelTimer;
  }

  readonly find: JWTVerifyGetKey = async (header, token) => {
    if (!this.current) await this.refresh();
    try {
      return await this.keys()(header, token);
    } catch (error) {
      if (!(error instanceof errors.JWKSNoMatchingKey) || !(await this.refresh())) throw error;
      return this.keys()(header, token);
    }
  };

  /** True when the keys were read again; false in the cooldown, or when reading failed. */
  private async refresh(): Promise<boolean> {
    if (!this.reading && this.clock.monotonic() - this.triedAt < COOLDOWN_MS) return false;
    return this.load().then(
      () => true,
      () => false,
    );
  }

  private keys(): LocalJWKSet {
    if (!this.current) throw new KeysUnavailable('the key set could not be read');
    return this.current;
  }

  private async read(): Promise<void> {
    this.triedAt = this.clock.monotonic();
    const text = await this.source();
    if (text.length > MAX_JWKS_CHARS) throw new Error('the key set is too large');
    this.current = createLocalJWKSet(JSON.parse(text) as JSONWebKeySet);
  }
}

/** No keys were ever read: the fault is ours or the issuer's, not the caller's. */
export class KeysUnavailable extends Error {}
