import { addressFault } from '@toolfleet/contracts/person-address';
import { memberPath, type Fault } from './faults.js';
import type { SignInSettings } from './schema.js';

const RESERVED = ['operator', 'local'];

/** Rules beyond the schema of `sign_in`: which fields go together. */
export function findSignInFaults(section: SignInSettings): Fault[] {
  const path = 'sign_in';
  if (Object.keys(section).length === 0) return [];
  const missing = (['issuer', 'client_id'] as const)
    .filter((key) => section[key] === undefined)
    .map((key) => ({ path: `${path}.${key}`, message: 'is missing; sign_in needs it' }));
  const issuer = section.issuer === undefined ? [] : findIssuerFaults(section.issuer, `${path}.issuer`);
  const { tenant, tenant_claim: claim } = section;
  const tenants =
    (tenant === undefined) === (claim === undefined)
      ? [{ path, message: 'needs one of tenant (for all users) and tenant_claim (the claim with it)' }]
      : [];
  // Entra's addresses for accounts of every organization.
  const isOpen = /\/(common|organizations|consumers)(\/|$)/.test(section.issuer ?? '') && !claim && !section.groups;
  const open = isOpen
    ? [{ path: `${path}.issuer`, message: 'admits accounts of every organization; set tenant_claim: tid, or groups' }]
    : [];
  const reserved =
    tenant !== undefined && RESERVED.includes(tenant)
      ? [{ path: `${path}.tenant`, message: `must not be ${RESERVED.join(' or ')}, which belong to the fleet` }]
      : [];
  const trust =
    section.insecure_skip_email_verified && section.user_claim !== 'email'
      ? [{ path: `${path}.insecure_skip_email_verified`, message: 'only applies with user_claim: email; remove it' }]
      : [];
  return [...missing, ...issuer, ...tenants, ...open, ...reserved, ...trust, ...findRoleFaults(section, path)];
}

/** A user without a known group is a member: a role for everyone would make each of them an administrator. */
function findRoleFaults({ roles = {} }: SignInSettings, path: string): Fault[] {
  return Object.keys(roles)
    .filter((group) => group === '*' || group === '')
    .map((group) => ({
      path: memberPath(`${path}.roles`, group),
      message: 'must be the name of a group; users without a group in roles are members',
    }));
}

function findIssuerFaults(issuer: string, path: string): Fault[] {
  const url = URL.canParse(issuer) ? new URL(issuer) : undefined;
  if (!url || !/^https?:$/.test(url.protocol)) return [{ path, message: 'must be an https URL' }];
  if (url.search || url.hash || url.username)
    return [
      { path, message: 'must have no query, fragment or user name; use the issuer of the provider as it names itself' },
    ];
  return addressFault(issuer) === undefined ? [] : [{ path, message: 'must begin with https://' }];
}
