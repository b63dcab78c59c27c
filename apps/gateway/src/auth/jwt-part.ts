import { EgressClient, egressFetch } from '@toolfleet/egress';
import { type ServiceHost, type LifecycleComponent, FatalStartupError } from '@toolfleet/service';
import type { JwtVerifier } from './jwt.js';
import { type JwtKeys, jwtSetup } from './jwt-setup.js';

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
