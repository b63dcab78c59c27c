import { readFile } from 'node:fs/promises';
import { EgressClient, egressFetch } from '@toolfleet/egress';
import { type ServiceHost, type LifecycleComponent, FatalStartupError } from '@toolfleet/service';
import type { Clock } from '@toolfleet/resilience';
import type { GatewayConfig } from '../gateway.config.js';
import { JwtVerifier, type JwksFetch, JwksKeys, remoteJwks } from '@toolfleet/access';

/** Settings of the gateway that concern JWTs, and the exceptions to the address guard that the operator listed. */
export type JwtComponentSettings = Pick<
  GatewayConfig,
  | 'JWT_ISSUER'
  | 'JWT_AUDIENCE'
  | 'JWT_JWKS_FILE'
  | 'JWT_JWKS_URL'
  | 'JWT_ALGORITHMS'
  | 'JWT_TENANT_CLAIM'
  | 'JWT_ROLES_CLAIM'
  | 'JWT_MAX_LIFETIME_SECONDS'
  | 'EGRESS_ALLOWED_ENDPOINTS'
>;

const MAX_JWKS_BYTES = 1_000_000;
const FETCH_MS = 5_000;

/**
 * Builds the JWT verifier and the component that reads its keys; undefined if no issuer is configured. Its HTTP client may
 * reach the host of the key set and nothing else. If the issuer is unavailable the gateway still starts and answers
 * JWTs with 503 until it has read the keys. A key file that cannot be read is a configuration mistake and stops the start.
 */
export function jwtComponent(
  settings: JwtComponentSettings,
  { clock, logger, faults }: Pick<ServiceHost, 'clock' | 'logger' | 'faults'>,
): { jwt: JwtVerifier; component: LifecycleComponent } | undefined {
  const { JWT_JWKS_URL: url, JWT_JWKS_FILE: file } = settings;
  const client = new EgressClient({
    allowlist: url === undefined ? [] : [new URL(url).origin],
    allowedEndpoints: settings.EGRESS_ALLOWED_ENDPOINTS,
    clock,
  });
  const timeouts = { headersMs: FETCH_MS, bodyIdleMs: FETCH_MS, totalMs: FETCH_MS };
  const onRead = (error: Error | undefined) =>
    faults.set('JWT keys', error ? [`cannot be read: ${error.message}`] : []);
  const setup = jwtSetup(settings, clock, egressFetch(client, { timeouts, maxBytes: MAX_JWKS_BYTES }), onRead);
  if (!setup) return undefined;
  const start = async (): Promise<void> => {
    setup.keys.start();
    try {
      await setup.keys.load();
    } catch (error) {
      if (file !== undefined) throw new FatalStartupError(`JWT_JWKS_FILE: ${(error as Error).message}`);
      logger.warn({ fault: (error as Error).message }, 'the key set of the JWT issuer cannot be read yet');
    }
  };
  const stop = async (): Promise<void> => {
    setup.keys.stop();
    await client.close();
  };
  return { jwt: setup.jwt, component: { name: 'jwt keys', start, stop, expiresAt: () => setup.keys.expiresAt } };
}

/**
 * Builds the verifier of the configured issuer; undefined if none is configured.
 * @param getKeys the guarded client's `fetch`, which may reach only the host of `JWT_JWKS_URL`
 * @param onRead called after every read of the keys, with its error if it failed
 * @throws RangeError when the settings contradict each other
 */
export function jwtSetup(
  settings: Omit<JwtComponentSettings, 'EGRESS_ALLOWED_ENDPOINTS'>,
  clock: Clock,
  getKeys: JwksFetch,
  onRead?: (error: Error | undefined) => void,
): { jwt: JwtVerifier; keys: JwksKeys } | undefined {
  const { JWT_ISSUER: issuer, JWT_AUDIENCE: audience, JWT_JWKS_FILE: file, JWT_JWKS_URL: url } = settings;
  if (issuer === undefined) return undefined;
  if (audience === undefined) throw new RangeError('JWT_ISSUER needs JWT_AUDIENCE');
  if ((file === undefined) === (url === undefined))
    throw new RangeError('JWT_ISSUER needs one of JWT_JWKS_FILE, JWT_JWKS_URL');
  const source = file === undefined ? remoteJwks(url!, getKeys) : () => readFile(file, 'utf8');
  const keys = new JwksKeys(source, clock, onRead);
  const claims = { tenant: settings.JWT_TENANT_CLAIM, roles: settings.JWT_ROLES_CLAIM };
  const { JWT_ALGORITHMS: algorithms, JWT_MAX_LIFETIME_SECONDS: maxLifetimeSeconds } = settings;
  return { jwt: new JwtVerifier({ issuer, audience, algorithms, claims, maxLifetimeSeconds }, keys, clock), keys };
}
