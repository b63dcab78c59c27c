import { describe, expect, it } from 'vitest';
import { FakeClock } from '@toolfleet/testing';
import { type JwtKeys, jwtSetup } from './jwt-setup.js';

const KEYS: JwtKeys = {
  JWT_ISSUER: 'https://issuer.test',
  JWT_AUDIENCE: 'toolfleet',
  JWT_JWKS_URL: 'https://issuer.test/jwks',
  JWT_ALGORITHMS: ['RS256'],
  JWT_TENANT_CLAIM: 'tenant',
  JWT_ROLES_CLAIM: 'roles',
  JWT_MAX_LIFETIME_SECONDS: 86_400,
};
const setUp = (more: Partial<JwtKeys> = {}) =>
  jwtSetup({ ...KEYS, ...more }, new FakeClock(), async () => new Response('{"keys":[]}'));

describe('configuration of JWTs', () => {
  it('makes a verifier, or none without an issuer', async () => {
    await expect(setUp()?.keys.load()).resolves.toBeUndefined();
    expect(setUp({ JWT_ISSUER: undefined })).toBeUndefined();
  });

  it.each<[Partial<JwtKeys>, string]>([
    [{ JWT_AUDIENCE: undefined }, 'JWT_AUDIENCE'],
    [{ JWT_JWKS_URL: undefined }, 'one of'],
    [{ JWT_JWKS_FILE: '/keys.json' }, 'one of'],
    [{ JWT_ALGORITHMS: ['HS256'] }, 'HS256'],
  ])('refuses %j', (more, message) => {
    expect(() => setUp(more)).toThrow(message);
  });

  it('reads a file of keys', async () => {
    const fromFile = setUp({ JWT_JWKS_URL: undefined, JWT_JWKS_FILE: '/nowhere/keys.json' });
    await expect(fromFile?.keys.load()).rejects.toThrow('ENOENT');
  });
});
