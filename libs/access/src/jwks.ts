import { X509Certificate } from 'node:crypto';
import { createLocalJWKSet, errors, type JSONWebKeySet, type JWK, type JWTVerifyGetKey, type LocalJWKSet } from 'jose';
import { Rounds, type Clock } from '@toolfleet/resilience';

/** Reads the JSON text of a JWK set, from a file or from the issuer. */
export type JwksSource = () => Promise<string>;

/** A `fetch` that reaches only the issuer's host (`egressFetch`). */
export type JwksFetch = (
  url: string,
  init: { headers: Record<string, string>; signal: AbortSignal },
) => Promise<Response>;

/** Least time between refreshes caused by unknown key ids that anyone can invent. Failed refreshes also count. */
const COOLDOWN_MS = 30_000;
/** The keys are read again in this interval, so that a withdrawn key stops working even if no tokens come. */
const REFRESH_EVERY_MS = 300_000;
const FETCH_TIMEOUT_MS = 5_000;
const MAX_JWKS_CHARS = 1_000_000;

/** Reads a JWK set over HTTP. */
export function remoteJwks(url: string, getKeys: JwksFetch): JwksSource {
  return async () => {
    const signal = AbortSignal.timeout(FETCH_TIMEOUT_MS);
    const response = await getKeys(url, { headers: { accept: 'application/json' }, signal });
    if (response.status !== 200) throw new Error(`the key set was answered with HTTP ${response.status}`);
    return response.text();
  };
}

/**
 * The keys of an issuer. jose selects the key of a token (by `kid`, `alg`, `use`); this class decides when to read the key set
 * again: once for an unknown `kid`, then after a cooldown that also covers failed reads (jose's covers successful ones only).
 * Concurrent callers share one read. If a refresh fails, the previous keys stay in use. Only tokens with an unknown key wait
 * for a read; all others are verified at once, however slow the issuer is.
 */
export class JwksKeys {
  private current?: LocalJWKSet;
  private lastExpiry: Date | undefined;
  private triedAt = Number.NEGATIVE_INFINITY;
  private reading?: Promise<void>;
  private readonly rounds: Rounds;

  constructor(
    private readonly source: JwksSource,
    private readonly clock: Clock,
    /** Called after every read, with its error if it failed. */
    private readonly onRead: (error: Error | undefined) => void = () => undefined,
  ) {
    this.rounds = new Rounds({ clock, everyMs: REFRESH_EVERY_MS, work: () => this.load() });
  }

  /** When the last signing key expires, by its `exp` or its certificate; undefined if one of them has no end. */
  get expiresAt(): Date | undefined {
    return this.lastExpiry;
  }

  /** Reads the keys now. Called at startup, so that a wrong file or address shows there. */
  async load(): Promise<void> {
    await (this.reading ??= this.read().finally(() => (this.reading = undefined)));
  }

  /** Reads the keys periodically until `stop`. */
  start(): void {
    this.rounds.start();
  }

  stop(): void {
    void this.rounds.stop();
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

  /** @returns false during the cooldown, or if the read failed */
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
    try {
      const text = await this.source();
      if (text.length > MAX_JWKS_CHARS) throw new Error('the key set is too large');
      const keySet = JSON.parse(text) as JSONWebKeySet;
      this.current = createLocalJWKSet(keySet);
      this.lastExpiry = lastExpiry(keySet);
      this.onRead(undefined);
    } catch (error) {
      this.onRead(error instanceof Error ? error : new Error(String(error)));
      throw error;
    }
  }
}

function lastExpiry({ keys }: JSONWebKeySet): Date | undefined {
  const ends = keys.map(({ exp, x5c }: JWK & { exp?: unknown }) => {
    if (typeof exp === 'number') return exp * 1_000;
    const certificate = x5c?.[0];
    if (certificate === undefined) return Number.POSITIVE_INFINITY;
    // A certificate that cannot be read has no end: jose verifies by the key itself.
    return endOf(certificate) ?? Number.POSITIVE_INFINITY;
  });
  const last = Math.max(...ends);
  return Number.isFinite(last) ? new Date(last) : undefined;
}

function endOf(certificate: string): number | undefined {
  try {
    return Date.parse(new X509Certificate(Buffer.from(certificate, 'base64')).validTo);
  } catch {
    return undefined;
  }
}

/** No key set has been read yet: not the caller's fault. */
export class KeysUnavailable extends Error {}
