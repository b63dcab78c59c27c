import type { McpTarget } from '../mcp-target.js';
import { OAuthCredential, type CredentialParts } from './oauth-credential.js';

const MAX_CREDENTIALS = 1_000;

/** One credential per server and configuration, however many sessions come and go. */
export class CredentialStore {
  private readonly credentials = new Map<string, OAuthCredential>();

  constructor(private readonly parts: CredentialParts) {}

  /** The credential of a server, or undefined when it needs none. */
  of(target: Pick<McpTarget, 'key' | 'oauth'>): OAuthCredential | undefined {
    if (!target.oauth) return undefined;
    const credential = this.credentials.get(target.key) ?? new OAuthCredential(target.oauth, this.parts);
    this.credentials.delete(target.key);
    this.credentials.set(target.key, credential);
    if (this.credentials.size > MAX_CREDENTIALS)
      this.credentials.delete(this.credentials.keys().next().value as string);
    return credential;
  }
}
