import { readFile } from 'node:fs/promises';
import type { Clock } from '@toolfleet/resilience';
import { type JwksFetch, JwksKeys, remoteJwks } from './jwks.js';
import { JwtVerifier } from './jwt.js';

/** The JWT keys of the gateway's configuration. */
export interface JwtKeys {
  JWT_ISSUER?: string | undefined;
  JWT_AUDIENCE?: string | undefined;
  JWT_JWKS_FILE?: string | undefined;
  JWT_JWKS_URL?: string | undefined;
  JWT_ALGORITHMS: readonly string[];
  JWT_TENANT_CLAIM: string;
  JWT_ROLES_CLAIM: string;
  JWT_MAX_LIFETIME_SECONDS: number;
}

/**
 * The verifier that the configuration asks for; undefined when no issuer is named. `getKeys`: the guarded client's `fetch`,
 * allowed to reach the host of `JWT_JWKS_URL` only.
 * @throws RangeError when the keys do not make sense together
 */
export function jwtSetup(
  settings: JwtKeys,
  clock: Clock,
  getKeys: JwksFetch,
): { jwt: JwtVerifier; keys: JwksKeys } | undefined {
  const { JWT_ISSUER: issuer, JWT_AUDIENCE: audience, JWT_JWKS_FILE: file, JWT_JWKS_URL: url } = settings;
  if (issuer === undefined) return undefined;
  if (audience === undefined) throw new RangeError('JWT_ISSUER needs JWT_AUDIENCE');
  if ((file === undefined) === (url === undefined))
    throw new RangeError('JWT_ISSUER needs one of JWT_JWKS_FILE, JWT_JWKS_URL');
  const source = file === undefined ? remoteJwks(url!, getKeys) : () => readFile(file, 'utf8');
  const keys = new JwksKeys(source, clock);
  const claims = { tenant: settings.JWT_TENANT_CLAIM, roles: settings.JWT_ROLES_CLAIM };
  const { JWT_ALGORITHMS: algorithms, JWT_MAX_LIFETIME_SECONDS: maxLifetimeSeconds } = settings;
  return { jwt: new JwtVerifier({ issuer, audience, algorithms, claims, maxLifetimeSeconds }, keys, clock), keys };
}
