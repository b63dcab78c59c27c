import { createHash } from 'node:crypto';
import { isJsonObject, ToolError, type EpochMs } from '@toolfleet/contracts';
import type { EgressClient } from '@toolfleet/egress';
import { SingleFlight, type Clock } from '@toolfleet/resilience';
import { redact, registerSecret } from '@toolfleet/telemetry';
import { LRUCache } from 'lru-cache';

/** Parameters of a token request; values may contain `${VAR}` or be sealed. */
export interface OAuthGrant {
  tokenUrl: string;
  /** The token URL is from the document, not from the configuration. */
  isOfDocument: boolean;
  clientId: string;
  clientSecret: string;
  scope: string;
  audience?: string;
  refreshToken?: string;
  /** Where the client sends its id and secret. */
  clientAuth: 'header' | 'body';
}

interface Token {
  value: string;
  expiresAt: EpochMs;
  /** Rotated refresh token, used instead of the configured one. */
  refreshToken?: string;
}

/** A token is renewed this long before it expires. */
const EARLY_MS = 60_000;
/** Lifetime of a token without `expires_in` (only recommended by RFC 6749 section 5.1). */
const DEFAULT_LIFETIME_SECONDS = 300;
const MAX_RESPONSE_BYTES = 64 * 1024;

/**
 * Access tokens by grant: one request at a time for each, renewed a minute before they expire. The token endpoint is reached through the
 * egress guard.
 */
export class OAuthTokens {
  private readonly tokens = new LRUCache<string, Token>({ max: 1_000 });
  private readonly flights = new SingleFlight<Token>();

  constructor(
    private readonly egress: EgressClient,
    private readonly clock: Clock,
  ) {}

  /** @throws ToolError AUTH_NOT_CONFIGURED when the endpoint refuses the client; egress errors otherwise */
  async get(grant: OAuthGrant, signal: AbortSignal, fresh: boolean): Promise<string> {
    const key = cacheKey(grant);
    const known = this.tokens.get(key);
    if (known && !fresh && known.expiresAt - this.clock.now() > EARLY_MS) return known.value;
    const { value } = await this.flights.join(key, signal, async (flightSignal) => {
      const token = await this.requestToken(grant, known?.refreshToken, flightSignal);
      this.tokens.set(key, token);
      return token;
    });
    return value.value;
  }

  private async requestToken(grant: OAuthGrant, rotated: string | undefined, signal: AbortSignal): Promise<Token> {
    const refreshToken = rotated ?? grant.refreshToken;
    const form = new URLSearchParams(
      refreshToken === undefined
        ? { grant_type: 'client_credentials' }
        : { grant_type: 'refresh_token', refresh_token: refreshToken },
    );
    if (grant.scope !== '') form.set('scope', grant.scope);
    if (grant.audience !== undefined) form.set('audience', grant.audience);
    const headers: Record<string, string> = {
      'content-type': 'application/x-www-form-urlencoded',
      accept: 'application/json',
    };
    if (grant.clientAuth === 'header' && grant.clientSecret !== '') {
      // RFC 6749 section 2.3.1: both are form-encoded before they are joined.
      const pair = `${encodeURIComponent(grant.clientId)}:${encodeURIComponent(grant.clientSecret)}`;
      headers.authorization = `Basic ${Buffer.from(pair).toString('base64')}`;
    } else {
      form.set('client_id', grant.clientId);
      if (grant.clientSecret !== '') form.set('client_secret', grant.clientSecret);
    }
    const response = await this.egress.request({
      url: grant.tokenUrl,
      method: 'POST',
      headers,
      body: form.toString(),
      signal,
      maxBytes: MAX_RESPONSE_BYTES,
    });
    return this.read(response.status, await response.body.text(), refreshToken);
  }

  private read(status: number, text: string, refreshToken: string | undefined): Token {
    const body = parse(text);
    const value = isJsonObject(body) ? body.access_token : undefined;
    if (status >= 500) {
      throw new ToolError('NETWORK_ERROR', {
        message: `The token endpoint answered HTTP ${status}`,
        facts: { delivered: false },
      });
    }
    if (status >= 400 || typeof value !== 'string' || value === '') {
      const why = isJsonObject(body) && typeof body.error === 'string' ? ` (${redact(body.error).slice(0, 100)})` : '';
      throw new ToolError('AUTH_NOT_CONFIGURED', {
        message: `AUTH_NOT_CONFIGURED: the token endpoint answered HTTP ${status}${why}`,
        details: { status },
      });
    }
    registerSecret(value);
    const fields = body as { expires_in?: unknown; refresh_token?: unknown };
    const lifetime = Number(fields.expires_in ?? DEFAULT_LIFETIME_SECONDS);
    const nextRefreshToken = typeof fields.refresh_token === 'string' ? fields.refresh_token : refreshToken;
    if (nextRefreshToken !== undefined) registerSecret(nextRefreshToken);
    return {
      value,
      expiresAt: this.clock.now() + (Number.isFinite(lifetime) ? lifetime : DEFAULT_LIFETIME_SECONDS) * 1_000,
      refreshToken: nextRefreshToken,
    };
  }
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function cacheKey(grant: OAuthGrant): string {
  return createHash('sha256').update(JSON.stringify(grant)).digest('base64url');
}
