import { claimAt } from '@toolfleet/access';
import {
  isReservedTenant,
  isReservedUser,
  OPERATOR_TENANT,
  TENANT_ID_PATTERN,
  ToolError,
  type JsonObject,
} from '@toolfleet/contracts';
import { OPERATOR_ROLE } from '@toolfleet/contracts/roles';
import { isPlainId } from '@toolfleet/contracts/text';
import type { SignInSettings } from '@toolfleet/fleet-file';

/** A user by the claims of the provider. */
export interface SignedInUser {
  tenantId: string;
  userId: string;
  /** Empty: a member. */
  roles: string[];
  groups: string[];
}

/**
 * The tenant, user and roles of the claims. Roles come from groups of the configuration file only, never from a claim; a user with the role
 * `operator` signs in to the tenant of operators.
 * @throws ToolError UNAUTHENTICATED for claims that name no valid tenant or user; PERMISSION_DENIED for users outside `groups`
 */
export function userOfClaims(claims: JsonObject, settings: SignInSettings): SignedInUser {
  const { user_claim: userClaim = 'sub', tenant_claim: tenantClaim, groups_claim: groupsClaim = 'groups' } = settings;
  const userId = claimAt(claims, userClaim);
  if (!isPlainId(userId) || isReservedUser(userId)) throw invalid(userClaim, 'the name of the user');
  if (userClaim === 'email') requireVerified(claims, settings);
  const groups = toNames(claimAt(claims, groupsClaim));
  if (settings.groups && isOverage(claims, groupsClaim)) throw new ToolError('PERMISSION_DENIED', { message: OVERAGE });
  if (settings.groups && !settings.groups.some((group) => groups.includes(group)))
    throw new ToolError('PERMISSION_DENIED', {
      message:
        'You are signed in at the provider, but in none of the groups that may use this fleet. Ask its operator.',
    });
  const granted = settings.roles ?? {};
  const roles = [...new Set(groups.flatMap((group) => (Object.hasOwn(granted, group) ? granted[group]! : [])))];
  // A claim with hundreds of groups would fill every session; those that mean something are kept.
  const known = groups.filter((group) => Object.hasOwn(granted, group) || settings.groups?.includes(group));
  if (roles.includes(OPERATOR_ROLE)) return { tenantId: OPERATOR_TENANT, userId, roles, groups: known };
  const tenantId = tenantClaim === undefined ? settings.tenant : claimAt(claims, tenantClaim);
  if (typeof tenantId !== 'string' || !TENANT_ID_PATTERN.test(tenantId) || isReservedTenant(tenantId))
    throw invalid(tenantClaim ?? 'tenant', 'a tenant (letters, digits, "_" and "-")');
  return { tenantId, userId, roles, groups: known };
}

/**
 * Refuses an address that the provider has not verified, because its user could have typed the address of another one. OpenID Connect Core
 * 1.0 section 5.1 defines a boolean; Cognito and Apple send it as text.
 * @throws ToolError UNAUTHENTICATED
 */
function requireVerified({ email_verified: verified }: JsonObject, settings: SignInSettings): void {
  if (verified === true || verified === 'true') return;
  if (verified === undefined && settings.insecure_skip_email_verified) return;
  const message =
    verified === undefined
      ? 'The provider does not say whether your address is verified (claim "email_verified"), so it cannot be your user id here. The operator of this fleet sets sign_in.user_claim: sub, or sign_in.insecure_skip_email_verified if the provider verifies every address.'
      : 'Your address is not verified at the provider (claim "email_verified"), so it cannot be your user id here. Verify it there and sign in again, or the operator of this fleet sets sign_in.user_claim: sub.';
  throw new ToolError('UNAUTHENTICATED', { message });
}

function invalid(claim: string, what: string): ToolError {
  const message = `The provider sent no valid claim "${claim}" (${what}). The operator of this fleet sets it in sign_in.`;
  return new ToolError('UNAUTHENTICATED', { message });
}

const OVERAGE =
  'You are in more groups than the provider sends, so it sent none of them. The operator of this fleet has it send only groups of this application, or sets sign_in.groups_claim: roles.';

/** True where Entra leaves out the groups of a user and names a place to ask for them (more than 200, or 6 in the implicit flow). */
export const isOverage = (claims: JsonObject, groupsClaim = 'groups'): boolean =>
  claims['hasgroups'] === true || Object.hasOwn(Object(claims['_claim_names']), groupsClaim);

/** A list is an array or one text; texts that could not be names are left out. */
function toNames(claim: unknown): string[] {
  const values: unknown[] = typeof claim === 'string' ? [claim] : Array.isArray(claim) ? claim : [];
  return values.filter(isPlainId);
}
