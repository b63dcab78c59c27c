/** Tables of the service. PostgreSQL returns bigint as text, so numbers are converted where they are read. */
export interface IdentityTables {
  sign_in_session: SessionTable;
  user_grant: GrantTable;
  connect_attempt: AttemptTable;
}

/** Columns of `sign_in_session`. */
export interface SessionTable {
  session_id: string;
  digest: string;
  tenant_id: string;
  user_id: string;
  /** JSON lists of texts. */
  roles: string;
  groups: string;
  created_at: number;
  expires_at: number;
  revoked_at: number | null;
  issuer: string | null;
  subject: string | null;
  sid: string | null;
  /** The OAuth client of the session; null for browsers. */
  client_id: string | null;
  client_name: string | null;
  /** When the provider last confirmed the user; null: at the sign-in. */
  asked_at: number | null;
  /** When it is asked next; null: it cannot be asked. */
  ask_at: number | null;
}

/** Columns of `user_grant`. */
export interface GrantTable {
  grant_id: string;
  tenant_id: string;
  user_id: string;
  source: string;
  mode: string;
  /** Hash of what the credential is bound to. */
  binding: string;
  /** Space-separated; null: none are known. */
  scopes: string | null;
  /** Counts the credentials; each stored one has a new number. */
  generation: number;
  /** JSON of the credential, sealed for this grant. */
  sealed: string;
  /** End of the access token; null: it has none. */
  expires_at: number | null;
  /** Who refreshes this generation, and until when it holds the right to. */
  refresher: string | null;
  refresh_until: number | null;
  /** When the refresh token of this generation was first sent. */
  refresh_since: number | null;
  /** Whether the authorization server replaces refresh tokens: 1, 0, or null while that is not known. */
  rotates: number | null;
  /** JSON of `auth.user` of the source; null for personal keys. */
  auth: string | null;
  /** Why the credential can no longer be used. */
  reason: string | null;
  created_at: number;
  updated_at: number;
}

/** Columns of `connect_attempt`: users that are at an authorization server. */
interface AttemptTable {
  /** SHA-256 of the state. */
  digest: string;
  tenant_id: string;
  user_id: string;
  source: string;
  auth: string;
  redirect_uri: string;
  /** JSON of state and PKCE verifier, sealed for the attempt. */
  sealed: string;
  expires_at: number;
}
