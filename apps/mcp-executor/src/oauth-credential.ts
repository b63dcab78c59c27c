import { ClientCredentialsProvider, type AuthProvider, type OAuthClientProvider } from '@modelcontextprotocol/client';
import { isJsonObject, ToolError } from '@toolfleet/contracts';
import type { EgressClient } from '@toolfleet/egress';
import type { Clock } from '@toolfleet/resilience';
import { registerSecret } from '@toolfleet/telemetry';
import type { OAuthOptions } from './mcp-target.js';

/** What a credential needs of this process. */
export interface CredentialParts {
  egress: EgressClient;
  clock: Clock;
  expand: (value: string) => string;
}

/** A token is renewed so long before it expires. */
const EARLY_MS = 30_000;
/** Lifetime of a token that names none (RFC 6749 5.1 leaves it open). */
const DEFAULT_LIFETIME_S = 300;
const MAX_TOKEN_ANSWER_BYTES = 64 * 1024;

/**
 * The credential of a server: against a configured token endpoint, or, without one, through the SDK's discovery from the
 * server's protected-resource metadata. Either way every request goes through the egress guard.
 */
export function credentialFor(oauth: OAuthOptions, parts: CredentialParts): AuthProvider | OAuthClientProvider {
  if (oauth.tokenUrl) return new TokenEndpointCredential(oauth, oauth.tokenUrl, parts);
  const common = {
    clientId: parts.expand(oauth.clientId),
    clientSecret: parts.expand(oauth.clientSecret),
    ...(oauth.scope ? { scope: oauth.scope } : {}),
  };
  return oauth.issuer
    ? new ClientCredentialsProvider({ ...common, expectedIssuer: parts.expand(oauth.issuer) })
    : new ClientCredentialsProvider(common);
}

interface Token {
  value: string;
  /** Monotonic instant after which it is renewed. */
  renewAt: number;
}

/** Client credentials or refresh token against one endpoint: renewed before expiry, one request at a time. */
export class TokenEndpointCredential implements AuthProvider {
  private held: Token | undefined;
  private fetching: Promise<Token> | undefined;
  /** Rotated by the authorization server (OAuth 2.1 4.3.1). */
  private refreshToken: string | undefined;

  constructor(
    private readonly oauth: OAuthOptions,
    private readonly tokenUrl: string,
    private readonly parts: CredentialParts,
  ) {}

  async token(): Promise<string> {
    if (this.held && this.held.renewAt > this.parts.clock.monotonic()) return this.held.value;
    return (await this.renew()).value;
  }

  /** The server refused the token although it had not expired: get another, once. */
  async onUnauthorized(): Promise<void> {
    this.held = undefined;
    await this.renew();
  }

  private renew(): Promise<Token> {
    this.fetching ??= this.fetchToken().finally(() => (this.fetching = undefined));
    return this.fetching;
  }

  private async fetchToken(): Promise<Token> {
    const { egress, clock, expand } = this.parts;
    const form = new URLSearchParams();
    const refresh = this.refreshToken ?? (this.oauth.refreshToken ? expand(this.oauth.refreshToken) : undefined);
    form.set('grant_type', refresh ? 'refresh_token' : 'client_credentials');
    if (refresh) form.set('refresh_token', refresh);
    if (this.oauth.scope) form.set('scope', this.oauth.scope);
    const id = expand(this.oauth.clientId);
    const secret = expand(this.oauth.clientSecret);
    const headers: Record<string, string> = {
      'content-type': 'application/x-www-form-urlencoded',
      accept: 'application/json',
    };
    // RFC 6749 2.3.1: both parts form-encoded before Basic; a public client names itself in the body.
    if (secret)
      headers['authorization'] = `Basic ${Buffer.from(`${encodeForm(id)}:${encodeForm(secret)}`).toString('base64')}`;
    else form.set('client_id', id);

    const response = await egress.request({
      url: expand(this.tokenUrl),
      method: 'POST',
      headers,
      body: form.toString(),
      maxBytes: MAX_TOKEN_ANSWER_BYTES,
    });
    const answer = parse(await response.body.text());
    const value = answer?.['access_token'];
    if (response.status !== 200 || typeof value !== 'string') {
      const reason = typeof answer?.['error'] === 'string' ? answer['error'] : `HTTP ${response.status}`;
      throw new ToolError('AUTH_NOT_CONFIGURED', {
        message: `The authorization server gave no token: ${reason.slice(0, 200)}`,
        details: { state: 'auth_failed', status: response.status },
      });
    }
    registerSecret(value);
    const rotated = answer?.['refresh_token'];
    if (typeof rotated === 'string') {
      registerSecret(rotated);
      this.refreshToken = rotated;
    }
    const seconds = typeof answer?.['expires_in'] === 'number' ? answer['expires_in'] : DEFAULT_LIFETIME_S;
    const lifetimeMs = Math.max(0, seconds * 1_000);
    this.held = { value, renewAt: clock.monotonic() + Math.max(lifetimeMs - EARLY_MS, lifetimeMs / 2) };
    return this.held;
  }
}

const encodeForm = (text: string): string => new URLSearchParams({ v: text }).toString().slice(2);

function parse(text: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return isJsonObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}
