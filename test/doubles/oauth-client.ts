/** What the official SDK wants of an application that signs its user in: it keeps everything in memory. */
import type { OAuthClientProvider } from '@modelcontextprotocol/client';

type Kept<K extends keyof OAuthClientProvider> = OAuthClientProvider[K] extends
  | ((...args: never[]) => infer R)
  | undefined
  ? Awaited<R>
  : never;

export class OAuthClientDouble implements OAuthClientProvider {
  readonly redirectUrl = 'http://127.0.0.1:33333/callback';
  client: Kept<'clientInformation'>;
  kept: Kept<'tokens'>;
  /** Where the user is sent. */
  authorizationUrl: URL | undefined;
  #verifier = '';

  /** @param clientMetadataUrl address of its client id metadata document; without one it registers */
  constructor(readonly clientMetadataUrl?: string) {}

  get clientMetadata() {
    return { client_name: 'Agent <b>One</b>', redirect_uris: [this.redirectUrl], token_endpoint_auth_method: 'none' };
  }
  state = () => 'a-state-of-the-client';
  clientInformation = () => this.client;
  saveClientInformation = (client: NonNullable<Kept<'clientInformation'>>) => void (this.client = client);
  tokens = () => this.kept;
  saveTokens = (tokens: NonNullable<Kept<'tokens'>>) => void (this.kept = tokens);
  redirectToAuthorization = (url: URL) => void (this.authorizationUrl = url);
  saveCodeVerifier = (verifier: string) => void (this.#verifier = verifier);
  codeVerifier = () => this.#verifier;
}
