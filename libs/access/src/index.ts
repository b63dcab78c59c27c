export { ApiKeys, isLive, MAX_OWN_KEYS, type KeyView } from './api-keys.js';
export { CredentialStatus, CredentialWatch } from './credential-status.js';
export { HeldRevocations } from './held-revocations.js';
export { claimAt, JWT_ALGORITHMS, JwtVerifier } from './jwt.js';
export { PeopleRoles } from './redis-people-roles.js';
export { PROJECT_HEADER, type ProjectContext, Projects } from './projects.js';
export { RedisKeyLimits } from './redis-key-limits.js';
export { RedisKeyStore } from './redis-key-store.js';
export { RegisterAuth } from './register-auth.js';
export { Rejections } from './rejections.js';
export { readSessionCookie, SESSION_COOKIE } from './session-cookie.js';
export { sessionDigest, UserSessions } from './user-sessions.js';
export { VerifiedCache } from './verified-cache.js';
export {
  coversRole,
  EVERY_TENANT,
  hasRight,
  mayDecide,
  type OwnRoles,
  refuseDelegated,
  requireRight,
  rightsOf,
} from './roles.js';
export {
  challenge,
  protectedResourceMetadata,
  readCredential,
  readRawCredential,
  unauthenticated,
} from './credential.js';
export { readUserAgent, toClientName } from './client-name.js';
export { ConnectLinks, isReturnUrl } from './connect-links.js';
export { delegationIssuer, grantIssuer, type TokenIssuer } from './delegation-issuer.js';
export { hostName, LOOPBACK_NAMES, originName } from './loopback.js';
export { openRequestState, sealRequestState, SignedTokens } from './signed-tokens.js';
export { type KeyAllowance, KeyLimits, RequestLimits, type ShowAllowance, type Tier, withTiers } from './key-limits.js';
export { ownKeys, toChangedKeySpec, toKeySpec } from './key-rights.js';
export { CallSight, contentRefusal, resultOmitted, toSeenCall, type Sight, type SightRule } from './call-sight.js';
export { toMaker } from '@toolfleet/contracts';
export {
  type Authenticate,
  authenticateRequest,
  LOCAL_OPERATOR,
  makeAuthenticate,
  refuseClients,
} from './authenticate.js';
export { type JwksFetch, JwksKeys, remoteJwks } from './jwks.js';
