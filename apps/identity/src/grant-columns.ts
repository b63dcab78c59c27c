import { createHash } from 'node:crypto';
import type { EpochMs } from '@toolfleet/contracts';
import type { UserGrant } from '@toolfleet/contracts/identity';
import type { UserAuth } from '@toolfleet/contracts/user-auth';
import type { IdentityRow } from './identity-tables.js';

/**
 * The binding of a credential: issuer, endpoints, client and scopes of the source. A source that changes one of them gets no credential
 * that was granted for another.
 */
export function bindingOf(auth: UserAuth): string {
  const {
    help: _help,
    header: _header,
    client_secret: _secret,
    refresh_grace_seconds: _grace,
    identity,
    ...rest
  } = auth;
  const { client_secret: _identitySecret, ...identityBound } = identity ?? {};
  const bound = { ...rest, ...(identity && { identity: identityBound }) };
  const members = Object.entries(bound).toSorted(([a], [b]) => (a < b ? -1 : 1));
  return createHash('sha256').update(JSON.stringify(members)).digest('base64url');
}

/** The settings that tokens are refreshed with: those of the source, and what it named itself when the user connected. */
export function grantedAs(auth: UserAuth, { issuer, scopes }: Pick<UserAuth, 'issuer' | 'scopes'>): UserAuth {
  return { issuer, scopes, ...auth };
}

/** Columns of a new credential. */
export const valuesOf = (
  grant_id: string,
  auth: UserAuth,
  { scopes, expiresAt }: { scopes?: readonly string[] | undefined; expiresAt?: EpochMs | undefined },
  now: EpochMs,
) => ({
  grant_id,
  mode: auth.mode,
  binding: bindingOf(auth),
  scopes: scopes?.join(' ') ?? null,
  expires_at: expiresAt ?? null,
  rotates: null as boolean | null,
  refresher: null,
  refresh_until: null,
  refresh_since: null,
  reason: null,
  updated_at: now,
});

/** A grant without its credential. */
export function toUserGrant(row: IdentityRow<'user_grant'>): UserGrant {
  const { grant_id, tenant_id, user_id, source, mode, scopes, created_at, updated_at, reason } = row;
  const list = scopes?.split(' ').filter(Boolean);
  return { grant_id, tenant_id, user_id, source, mode, scopes: list, created_at, updated_at, reason };
}
