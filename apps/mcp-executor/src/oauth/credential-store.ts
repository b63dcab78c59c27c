import type { McpTarget } from '../mcp-target.js';
import type { OpenSecret } from '../open-secret.js';
import { OAuthCredential, type CredentialParts } from './oauth-credential.js';

const MAX_CREDENTIALS = 1_000;

/** One credential per server and configuration, however many sessions come and go. */
export class CredentialStore {
  private readonly credentials = new Map<string, OAuthCredential>();

  constructor(private readonly parts: Omit<CredentialParts, 'expand'> & { expand: OpenSecret }) {}

  /** The credential of a server, or undefined when it needs none. */
  of(target: Pick<McpTarget, 'key' | 'oauth' | 'registration'>): OAuthCredential | undefined {
    if (!target.oauth) return undefined;
    const expand = (value: string): string => this.parts.expand(value, target.registration);
    const credential = this.credentials.get(target.key) ?? new OAuthCredential(target.oauth, { ...this.parts, expand });
    this.credentials.delete(target.key);
    this.credentials.set(target.key, credential);
    if (this.credentials.size > MAX_CREDENTIALS)
      this.credentials.delete(this.credentials.keys().next().value as string);
    return credential;
  }
}
