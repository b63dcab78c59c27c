export interface AuthorizationServer {
  readonly issuer: string;
  /** Who signs in next. */
  user: string;
  /** Grants that were revoked: families of tokens that ended. */
  readonly revoked: number;
  /** Successful refreshes by user. */
  readonly refreshes: ReadonlyMap<string, number>;
  /** Refreshes of tokens with more than 30 % of their life left. */
  readonly early: number;
  /** Exchanges in their order: the token that was requested, the user, the audience. */
  readonly exchanges: string[];
  /** Every access, refresh and ID token. */
  readonly issued: ReadonlySet<string>;
  refusesExchanges: boolean;
  /** Issuer of assertions that it takes. */
  trusts: string | undefined;
  /** Awaited before each answer of the token endpoint is sent, when the server has done its work. */
  beforeAnswer: (() => Promise<void>) | undefined;
  accountOf(token: string): Promise<string | undefined>;
  signIn(url: string, user: string): Promise<string>;
  stop(): Promise<void>;
}
export function startAuthorizationServer(
  redirectUris: readonly string[],
  options?: { accessTokenSeconds?: number },
): Promise<AuthorizationServer>;
