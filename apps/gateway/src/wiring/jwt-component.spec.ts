import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { describe, expect, it, afterAll, beforeAll } from 'vitest';
import { FakeClock } from '@toolfleet/testing';
import { exportJWK, generateKeyPair, SignJWT } from 'jose';
import { ServiceFaults } from '@toolfleet/service';
import { SystemClock } from '@toolfleet/resilience';
import { createLogger } from '@toolfleet/telemetry';
import { jwtComponent, jwtSetup, type JwtComponentSettings } from './jwt-component.js';

const KEYS: Parameters<typeof jwtSetup>[0] = {
  JWT_ISSUER: 'https://issuer.test',
  JWT_AUDIENCE: 'toolfleet',
  JWT_JWKS_URL: 'https://issuer.test/jwks',
  JWT_TENANT_CLAIM: 'tenant',
  JWT_ROLES_CLAIM: 'roles',
};
const setUpVerifier = (more: Partial<JwtComponentSettings> = {}) =>
  jwtSetup({ ...KEYS, ...more }, new FakeClock(), async () => new Response('{"keys":[]}'));

describe('configuration of JWTs', () => {
  it('builds a verifier, or none without an issuer', async () => {
    await expect(setUpVerifier()?.keys.load()).resolves.toBeUndefined();
    expect(setUpVerifier({ JWT_ISSUER: undefined })).toBeUndefined();
  });

  it.each([
    ['the last key of the set', [{ exp: 2_000_000_000 }, { exp: 2_100_000_000 }], new Date(2_100_000_000_000)],
    ['never while a key has no end', [{ exp: 2_000_000_000 }, {}], undefined],
    ['never without keys', [], undefined],
  ])('knows when signing keys expire: %s', async (_what, ends, expected) => {
    const keys = ends.map((end, index) => ({ kty: 'oct', kid: String(index), k: 'AA', ...end }));
    const setup = jwtSetup(KEYS, new FakeClock(), async () => new Response(JSON.stringify({ keys })));
    await setup!.keys.load();
    expect(setup!.keys.expiresAt).toEqual(expected);
  });

  it.each<[Partial<JwtComponentSettings>, string]>([
    [{ JWT_AUDIENCE: undefined }, 'JWT_AUDIENCE'],
    [{ JWT_JWKS_URL: undefined }, 'JWT_JWKS_URL'],
  ])('refuses %j', (more, message) => {
    expect(() => setUpVerifier(more)).toThrow(message);
  });

  it('refuses types of tokens of another issuer, and names both', () => {
    const extras = { tokenTypes: { 'https://issuer.test/': ['JWT' as const] } };
    expect(() => jwtSetup(KEYS, new FakeClock(), async () => new Response('{}'), extras)).toThrow(
      'token_types names the issuer https://issuer.test/, and JWT_ISSUER is https://issuer.test',
    );
  });

  it('reads a file of keys', async () => {
    const fromFile = setUpVerifier({ JWT_JWKS_URL: 'file:///nowhere/keys.json' });
    await expect(fromFile?.keys.load()).rejects.toThrow('ENOENT');
  });
});

const ISSUER = 'https://issuer.test';
let server: Server;
let origin: string;
let hits = 0;
let token: string;

beforeAll(async () => {
  const { publicKey, privateKey } = await generateKeyPair('ES256');
  const jwks = JSON.stringify({ keys: [{ ...(await exportJWK(publicKey)), kid: 'k1', alg: 'ES256' }] });
  server = createServer((_, response) => {
    hits++;
    response.end(jwks);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  token = await new SignJWT({ tenant: 'acme', roles: ['dev'] })
    .setProtectedHeader({ alg: 'ES256', kid: 'k1', typ: 'at+jwt' })
    .setIssuer(ISSUER)
    .setAudience('toolfleet')
    .setSubject('ann')
    .setIssuedAt()
    .setExpirationTime('5m')
    .sign(privateKey);
});
afterAll(() => {
  server.closeAllConnections();
  server.close();
});

function setUp(more: Partial<JwtComponentSettings>) {
  const settings = {
    JWT_ISSUER: ISSUER,
    JWT_JWKS_URL: undefined,
    JWT_AUDIENCE: 'toolfleet',
    JWT_TENANT_CLAIM: 'tenant',
    JWT_ROLES_CLAIM: 'roles',
    EGRESS_ALLOWED_ENDPOINTS: [],
    ...more,
  };
  return jwtComponent(settings, {
    clock: new SystemClock(),
    faults: new ServiceFaults(new SystemClock()),
    logger: createLogger({ service: 'spec', level: 'silent' }),
  });
}

describe('JWTs of the gateway', () => {
  it('are verified with keys fetched from the issuer', async () => {
    const made = setUp({ JWT_JWKS_URL: `${origin}/jwks`, EGRESS_ALLOWED_ENDPOINTS: [origin] })!;
    await made.component.start?.();
    expect(await made.jwt.verify(token)).toMatchObject({
      principal: { tenantId: 'acme', userId: 'ann', roles: ['dev'], via: 'jwt' },
    });
    expect(hits).toBe(1);
    await made.component.stop?.();
  });

  it('wait, with 503, while the key set cannot be reached; the address guard holds here too', async () => {
    const before = hits;
    const made = setUp({ JWT_JWKS_URL: 'https://localhost/jwks' })!;
    await made.component.start?.();
    await expect(made.jwt.verify(token)).rejects.toMatchObject({ code: 'SERVICE_UNAVAILABLE' });
    expect(hits).toBe(before);
    await made.component.stop?.();
  });

  it('refuse the start with a file that cannot be read, and are off without an issuer', async () => {
    const made = setUp({ JWT_JWKS_URL: 'file:///nowhere/keys.json' })!;
    await expect(made.component.start?.()).rejects.toThrow('JWT_JWKS_URL');
    await made.component.stop?.();
    expect(setUp({ JWT_ISSUER: undefined })).toBeUndefined();
  });
});
