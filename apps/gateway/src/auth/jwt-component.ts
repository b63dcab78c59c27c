import { readFile } from 'node:fs/promises';
import { EgressClient, egressFetch } from '@toolfleet/egress';
import { type ServiceHost, type LifecycleComponent, FatalStartupError } from '@toolfleet/service';
import type { Clock } from '@toolfleet/resilience';
import { JwtVerifier } from './jwt.js';
import { type JwksFetch, JwksKeys, remoteJwks } from './jwks.js';

/** What is needed to accept JWTs, with the exceptions to the address guard that the operator listed. */
export type JwtPartSettings = JwtKeys & { EGRESS_ALLOWED_ENDPOINTS: readonly string[] };

const MAX_JWKS_BYTES = 1_000_000;
const FETCH_MS = 5_000;

/**
 * The JWT verifier of the gateway and the part that reads its keys; undefined when no issuer is configured. Its client may
 * reach the host of the key set and nothing else. An issuer that is away does not keep the gateway from starting: JWTs are
 * answered 503 until its keys were read; a file that cannot be read is a mistake and refuses the start.
 */
export function jwtPart(
  settings: JwtPartSettings,
  { clock, logger }: Pick<ServiceHost, 'clock' | 'logger'>,
): { jwt: JwtVerifier; part: LifecycleComponent } | undefined {
  const { JWT_JWKS_URL: url, JWT_JWKS_FILE: file } = settings;
  const client = new EgressClient({
    allowlist: url === undefined ? [] : [new URL(url).origin],
    allowedEndpoints: settings.EGRESS_ALLOWED_ENDPOINTS,
    clock,
  });
  const timeouts = { headersMs: FETCH_MS, bodyIdleMs: FETCH_MS, totalMs: FETCH_MS };
  const setup = jwtSetup(settings, clock, egressFetch(client, { timeouts, maxBytes: MAX_JWKS_BYTES }));
  if (!setup) return undefined;
  const start = async (): Promise<void> => {
    setup.keys.start();
    try {
      await setup.keys.load();
    } catch (error) {
      if (file !== undefined) throw new FatalStartupError(`JWT_JWKS_FILE: ${(error as Error).message}`);
      logger.warn({ fault: (error as Error).message }, 'the key set of the issuer cannot be read yet');
    }
  };
  const stop = async (): Promise<void> => {
    setup.keys.stop();
    await client.close();
  };
  return { jwt: setup.jwt, part: { name: 'jwt keys', start, stop } };
}

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
