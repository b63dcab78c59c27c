/** Tables of the service. PostgreSQL returns bigint as text, so numbers are converted where they are read. */
export interface IdentityTables {
  sign_in_session: SessionTable;
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
  /** JSON of the provider's tokens, sealed for the session. */
  sealed: string | null;
}
