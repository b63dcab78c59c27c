import { readFile } from 'node:fs/promises';
import { EgressClient, egressFetch } from '@toolfleet/egress';
import { type ServiceHost, type LifecycleComponent, FatalStartupError } from '@toolfleet/service';
import type { Clock } from '@toolfleet/resilience';
import type { FleetFile } from '@toolfleet/fleet-file';
import type { GatewayConfig } from '../gateway.config.js';
import { JWT_ALGORITHMS, JwtVerifier, type JwksFetch, JwksKeys, remoteJwks } from '@toolfleet/access';

/** Settings of the gateway that concern JWTs, and the exceptions to the address guard that the operator listed. */
export type JwtComponentSettings = Pick<
  GatewayConfig,
  'JWT_ISSUER' | 'JWT_AUDIENCE' | 'JWT_JWKS_URL' | 'JWT_TENANT_CLAIM' | 'JWT_ROLES_CLAIM' | 'EGRESS_ALLOWED_ENDPOINTS'
>;

interface JwtExtras {
  onRead?: (error: Error | undefined) => void;
  /** Called with the mistake in a setting that a token shows. */
  onFault?: (setting: string, message: string) => void;
  tokenTypes?: FleetFile['token_types'];
}

/** Every asymmetric algorithm, because a key of the set fixes its own; a token of a longer life could not be withdrawn. */
const TOKENS = { algorithms: JWT_ALGORITHMS, maxLifetimeSeconds: 86_400 };
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
  tokenTypes: FleetFile['token_types'] = {},
): { jwt: JwtVerifier; component: LifecycleComponent } | undefined {
  const url = settings.JWT_JWKS_URL;
  const isFile = url?.startsWith('file:') === true;
  const client = new EgressClient({
    allowlist: url === undefined || isFile ? [] : [new URL(url).origin],
    allowedEndpoints: settings.EGRESS_ALLOWED_ENDPOINTS,
    clock,
  });
  const timeouts = { headersMs: FETCH_MS, bodyIdleMs: FETCH_MS, totalMs: FETCH_MS };
  const onRead = (error: Error | undefined) =>
    faults.set('JWT keys', error ? [`cannot be read: ${error.message}`] : []);
  const getKeys = egressFetch(client, { timeouts, maxBytes: MAX_JWKS_BYTES });
  const onFault = (setting: string, message: string) => faults.set(setting, [message]);
  const setup = jwtSetup(settings, clock, getKeys, { onRead, onFault, tokenTypes });
  if (!setup) return undefined;
  const start = async (): Promise<void> => {
    setup.keys.start();
    try {
      await setup.keys.load();
    } catch (error) {
      if (isFile) throw new FatalStartupError(`JWT_JWKS_URL: ${(error as Error).message}`);
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
 * @param getKeys the guarded client's `fetch` for the host only of `JWT_JWKS_URL`
 * @param extras `onRead` is called after every read of the keys, with its error if it failed; `tokenTypes` is the section `token_types`
 * @throws RangeError when the settings contradict each other
 */
export function jwtSetup(
  settings: Omit<JwtComponentSettings, 'EGRESS_ALLOWED_ENDPOINTS'>,
  clock: Clock,
  getKeys: JwksFetch,
  { onRead, onFault, tokenTypes = {} }: JwtExtras = {},
): { jwt: JwtVerifier; keys: JwksKeys } | undefined {
  const { JWT_ISSUER: issuer, JWT_AUDIENCE: audience, JWT_JWKS_URL: url } = settings;
  if (issuer === undefined) return undefined;
  if (audience === undefined) throw new RangeError('JWT_ISSUER needs JWT_AUDIENCE');
  if (url === undefined) throw new RangeError('JWT_ISSUER needs JWT_JWKS_URL');
  for (const named of Object.keys(tokenTypes))
    if (named !== issuer) throw new RangeError(`token_types names the issuer ${named}, and JWT_ISSUER is ${issuer}`);
  const source = url.startsWith('file:') ? () => readFile(new URL(url), 'utf8') : remoteJwks(url, getKeys);
  const keys = new JwksKeys(source, clock, onRead);
  const claims = { tenant: settings.JWT_TENANT_CLAIM, roles: settings.JWT_ROLES_CLAIM };
  const verified = { issuer, audience, claims, tokenTypes: tokenTypes[issuer], ...TOKENS };
  return { jwt: new JwtVerifier(verified, keys, clock, onFault), keys };
}
