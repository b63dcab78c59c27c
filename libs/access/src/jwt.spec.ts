import { createHmac } from 'node:crypto';
import { CompactSign, exportJWK, exportSPKI, generateKeyPair, type JWTPayload, SignJWT } from 'jose';
import { beforeAll, describe, expect, it } from 'vitest';
import { PRESENTED_TOKEN } from '@toolfleet/contracts';
import { FakeClock } from '@toolfleet/testing';
import { JwksKeys, type JwksSource, remoteJwks } from './jwks.js';
import { JwtVerifier } from './jwt.js';

const ISSUER = 'https://issuer.test';
const AUDIENCE = 'toolfleet';
const SETTINGS = {
  issuer: ISSUER,
  audience: AUDIENCE,
  algorithms: ['RS256'],
  claims: { tenant: 'tenant', roles: 'realm_access.roles', tools: 'tools', tier: 'tier' },
  maxLifetimeSeconds: 3_600,
};
const refusal = { code: 'UNAUTHENTICATED', message: 'Invalid credentials.' };
type Header = Record<string, unknown>;

let ours: Awaited<ReturnType<typeof generateKeyPair>>;
let theirs: Awaited<ReturnType<typeof generateKeyPair>>;
let jwks: string;

beforeAll(async () => {
  ours = await generateKeyPair('RS256', { extractable: true });
  theirs = await generateKeyPair('RS256', { extractable: true });
  jwks = JSON.stringify({ keys: [{ ...(await exportJWK(ours.publicKey)), kid: 'k1', alg: 'RS256', use: 'sig' }] });
});

function setUp(
  source: JwksSource = async () => jwks,
  more: Partial<ConstructorParameters<typeof JwtVerifier>[0]> = {},
) {
  const clock = new FakeClock();
  const keys = new JwksKeys(source, clock);
  const faults: string[][] = [];
  const jwt = new JwtVerifier({ ...SETTINGS, ...more }, keys, clock, (...fault) => faults.push(fault));
  return { clock, keys, faults, jwt };
}

const seconds = (clock: FakeClock) => Math.floor(clock.now() / 1_000);
const claims = (clock: FakeClock): JWTPayload => ({
  iss: ISSUER,
  aud: AUDIENCE,
  sub: 'ann',
  iat: seconds(clock),
  exp: seconds(clock) + 300,
  tenant: 'acme',
  realm_access: { roles: ['dev', 'admin'] },
  tools: 'web_search calc*',
  tier: 'pro',
});
const sign = (payload: JWTPayload, header: Header = {}, key = ours.privateKey) =>
  new SignJWT(payload).setProtectedHeader({ alg: 'RS256', kid: 'k1', typ: 'at+jwt', ...header }).sign(key);
const raw = (header: Header, payload: unknown, signature: (input: string) => string) => {
  const part = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url');
  const input = `${part(header)}.${part(payload)}`;
  return `${input}.${signature(input)}`;
};

describe('JWT', () => {
  it('yields the principal of the configured claims', async () => {
    const { clock, jwt } = setUp();
    const token = await sign(claims(clock));
    const verified = await jwt.verify(token);
    expect(JSON.stringify(verified)).not.toContain(token);
    expect(verified).toEqual({
      principal: {
        [PRESENTED_TOKEN]: token,
        tenantId: 'acme',
        userId: 'ann',
        roles: ['dev', 'admin'],
        tools: ['web_search', 'calc*'],
        via: 'jwt',
        tier: 'pro',
        expiresAt: (seconds(clock) + 330) * 1_000,
      },
      expiresAt: (seconds(clock) + 330) * 1_000,
    });
  });

  it('is accepted up to 30 s before nbf and after exp', async () => {
    const { clock, jwt } = setUp();
    const now = seconds(clock);
    await expect(jwt.verify(await sign({ ...claims(clock), iat: now - 300, exp: now - 29 }))).resolves.toBeDefined();
    await expect(jwt.verify(await sign({ ...claims(clock), iat: now - 300, exp: now - 31 }))).rejects.toMatchObject(
      refusal,
    );
    await expect(jwt.verify(await sign({ ...claims(clock), nbf: now + 29 }))).resolves.toBeDefined();
    await expect(jwt.verify(await sign({ ...claims(clock), nbf: now + 31 }))).rejects.toMatchObject(refusal);
  });

  it.each<[string, (clock: FakeClock) => Promise<string> | string]>([
    ['alg none', (c) => raw({ alg: 'none', kid: 'k1', typ: 'at+jwt' }, claims(c), () => '')],
    ['alg None', (c) => raw({ alg: 'None', kid: 'k1', typ: 'at+jwt' }, claims(c), () => '')],
    [
      'HS256 by an empty secret',
      (c) =>
        raw({ alg: 'HS256', kid: 'k1', typ: 'at+jwt' }, claims(c), (i) =>
          createHmac('sha256', '').update(i).digest('base64url'),
        ),
    ],
    ['another allowed family', async (c) => raw({ alg: 'PS256', kid: 'k1', typ: 'at+jwt' }, claims(c), () => 'AAAA')],
    ['another key', (c) => sign(claims(c), {}, theirs.privateKey)],
    ['a wrong aud', (c) => sign({ ...claims(c), aud: 'other' })],
    ['a wrong iss', (c) => sign({ ...claims(c), iss: 'https://evil.test' })],
    ['no exp', (c) => sign({ ...claims(c), exp: undefined })],
    ['an ID token', (c) => sign(claims(c), { typ: 'JWT' })],
    ['no typ', (c) => sign(claims(c), { typ: undefined })],
    ['no kid', (c) => sign(claims(c), { kid: undefined })],
    ['an unknown kid', (c) => sign(claims(c), { kid: 'k2' })],
    ['no tenant', (c) => sign({ ...claims(c), tenant: undefined })],
    ['a tenant with a dot', (c) => sign({ ...claims(c), tenant: 'a.b' })],
    ['a tenant that is a list', (c) => sign({ ...claims(c), tenant: ['acme'] })],
    ['a reserved tenant: operator', (c) => sign({ ...claims(c), tenant: 'operator' })],
    ['a reserved tenant: local', (c) => sign({ ...claims(c), tenant: 'local' })],
    ['a life longer than allowed', (c) => sign({ ...claims(c), exp: seconds(c) + 3_601 })],
    ['the end of a life longer than allowed', (c) => sign({ ...claims(c), iat: seconds(c) - 86_400 })],
    ['an issue in the future', (c) => sign({ ...claims(c), iat: seconds(c) + 31 })],
    ['no iat', (c) => sign({ ...claims(c), iat: undefined })],
    ['a line end in sub', (c) => sign({ ...claims(c), sub: 'ann\n' })],
    ['a NUL in sub', (c) => sign({ ...claims(c), sub: 'ann\u0000' })],
    ['a C1 control in sub', (c) => sign({ ...claims(c), sub: 'a\u0085nn' })],
    ['a line separator in sub', (c) => sign({ ...claims(c), sub: 'a\u2028nn' })],
    ['half a character in sub', (c) => sign({ ...claims(c), sub: 'ann\ud83d' })],
    ['a sub that is too long', (c) => sign({ ...claims(c), sub: 'a'.repeat(257) })],
    ['a control character in a role', (c) => sign({ ...claims(c), realm_access: { roles: ['dev', 'a\tb'] } })],
    ['a control character in a tool', (c) => sign({ ...claims(c), tools: 'calc*\u0007' })],
    ['a control character in the tier', (c) => sign({ ...claims(c), tier: 'pro\r' })],
    ['the sub of a service account', (c) => sign({ ...claims(c), sub: 'service:bot' })],
    ['the sub of a NATS subject', (c) => sign({ ...claims(c), sub: 'nats:acme' })],
    ['no sub', (c) => sign({ ...claims(c), sub: undefined })],
    [
      'a payload that is not JSON',
      async () =>
        new CompactSign(Buffer.from('x'))
          .setProtectedHeader({ alg: 'RS256', kid: 'k1', typ: 'at+jwt' })
          .sign(ours.privateKey),
    ],
    [
      'crit with an unknown entry',
      (c) => raw({ alg: 'RS256', kid: 'k1', typ: 'at+jwt', crit: ['x'], x: 1 }, claims(c), () => 'AAAA'),
    ],
    ['garbage', () => 'a.b.c'],
  ])('is refused: %s', async (_, token) => {
    const { clock, jwt } = setUp();
    await expect(jwt.verify(await token(clock))).rejects.toMatchObject(refusal);
  });

  it('says why, to the log and not to the caller', async () => {
    const { clock, jwt, faults } = setUp();
    const reason = async (token: Promise<string>) =>
      jwt.verify(await token).catch((error: Error) => (error.cause as Error).message);
    const given = claims(clock);
    expect(await reason(sign(given, { typ: 'JWT' }))).toContain('its typ is "JWT", and at+jwt is accepted');
    expect(await reason(sign({ ...given, aud: 'other' }))).toBe(
      'JWT_AUDIENCE is "toolfleet", and its audience "other"',
    );
    expect(await reason(sign({ ...given, tenant: 'a.b' }))).toBe('its claim tenant cannot be a tenant: "a.b"');
    expect(await reason(sign(given, {}, theirs.privateKey))).toContain('signature');
    expect(faults).toEqual([]);
    const why = `is "${ISSUER}", and tokens of the issuer say "${ISSUER}/"`;
    expect(await reason(sign({ ...given, iss: `${ISSUER}/` }))).toBe(`JWT_ISSUER ${why}`);
    expect(faults).toEqual([['JWT_ISSUER', why]]);
  });

  describe('of a provider that is accepted by token_types', () => {
    const TENANT = '9188040d-6c67-4c5b-b112-36a304b66dad';
    const entra = { iss: `https://login.microsoftonline.com/${TENANT}/v2.0`, tid: TENANT, ver: '2.0' };
    const multi = { issuer: 'https://login.microsoftonline.com/{tenantid}/v2.0', claims: { tenant: 'tid' } };
    it.each<[string, object, JWTPayload, string | undefined]>([
      ['Keycloak', {}, { typ: 'Bearer', azp: 'fleet', nonce: 'n', scope: 'openid' }, 'JWT'],
      ['Entra v2', { issuer: entra.iss }, { ...entra, azp: 'fleet', azpacr: '1', scp: 'tools' }, 'JWT'],
      ['Entra of all organizations', multi, { ...entra, azpacr: '1', roles: ['x'] }, 'JWT'],
      ['Okta', {}, { cid: 'fleet', uid: 'u', scp: ['tools'] }, undefined],
      ['Auth0', {}, { azp: 'fleet', scope: 'tools' }, 'JWT'],
      ['Cognito', { audience: 'app' }, { aud: undefined, token_use: 'access', client_id: 'app' }, undefined],
    ])('is accepted: %s', async (_who, settings, more, typ) => {
      const { clock, jwt } = setUp(undefined, { tokenTypes: ['JWT', 'none'], ...settings });
      await expect(jwt.verify(await sign({ ...claims(clock), ...more }, { typ }))).resolves.toBeDefined();
      const strict = setUp(undefined, settings);
      await expect(strict.jwt.verify(await sign({ ...claims(strict.clock), ...more }, { typ }))).rejects.toMatchObject(
        refusal,
      );
    });

    it.each<[string, JWTPayload]>([
      ['an ID token with a nonce', { nonce: 'n', scope: 'openid' }],
      ['an ID token with a hash', { at_hash: 'h', scp: 'a' }],
      ['an ID token without either', { azp: 'fleet', email: 'ann@example.com' }],
      ['an ID token of Keycloak', { typ: 'ID', azp: 'fleet', scope: 'a' }],
      ['a refresh token of Keycloak', { typ: 'Refresh', scope: 'a' }],
      ['an ID token of Cognito', { token_use: 'id', client_id: 'toolfleet' }],
      ['a token without audience', { aud: undefined, scope: 'a', client_id: 'toolfleet' }],
    ])('is refused: %s', async (_what, more) => {
      const { clock, jwt } = setUp(undefined, { tokenTypes: ['JWT', 'none'] });
      await expect(jwt.verify(await sign({ ...claims(clock), ...more }, { typ: 'JWT' }))).rejects.toMatchObject(
        refusal,
      );
    });

    it.each([
      ['of another directory', { tid: '00000000-6c67-4c5b-b112-36a304b66dad' }],
      ['without a directory', { tid: undefined }],
      ['with a directory that is not an id', { tid: 'x', iss: 'https://login.microsoftonline.com/x/v2.0' }],
    ])('is refused for an issuer of all organizations: %s', async (_what, more) => {
      const { clock, jwt } = setUp(undefined, { ...multi, tokenTypes: ['JWT'] });
      const token = sign({ ...claims(clock), ...entra, scp: 'a', ...more }, { typ: 'JWT' });
      await expect(jwt.verify(await token)).rejects.toMatchObject(refusal);
    });

    it('takes the directory as tenant where the issuer is of all organizations', () => {
      const settings = { ...multi, claims: { tenant: 'tenant' } };
      expect(() => setUp(undefined, settings)).toThrow('needs JWT_TENANT_CLAIM=tid');
    });
  });

  it('says where Entra leaves groups out', async () => {
    const { clock, jwt, faults } = setUp(undefined, { claims: { tenant: 'tenant', roles: 'groups' } });
    const token = sign({ ...claims(clock), _claim_names: { groups: 'src1' }, _claim_sources: { src1: {} } });
    expect((await jwt.verify(await token)).principal.roles).toEqual([]);
    expect(faults).toMatchObject([['JWT_ROLES_CLAIM', expect.stringContaining('too many groups')]]);
  });

  it('is refused when HS256 is signed with the RSA public key', async () => {
    const { clock, jwt } = setUp();
    const spki = await exportSPKI(ours.publicKey);
    for (const secret of [spki, spki.trim(), jwks]) {
      const token = raw({ alg: 'HS256', kid: 'k1', typ: 'at+jwt' }, claims(clock), (input) =>
        createHmac('sha256', secret).update(input).digest('base64url'),
      );
      await expect(jwt.verify(token)).rejects.toMatchObject(refusal);
    }
  });

  it('never takes a key from the token: jwk, jku and x5u are ignored', async () => {
    const { clock, jwt } = setUp();
    const jwk = await exportJWK(theirs.publicKey);
    for (const header of [{ jwk }, { jku: 'https://evil.test/jwks' }, { x5u: 'https://evil.test/cert' }]) {
      await expect(jwt.verify(await sign(claims(clock), header, theirs.privateKey))).rejects.toMatchObject(refusal);
      await expect(jwt.verify(await sign(claims(clock), header))).resolves.toBeDefined();
    }
  });

  it('is never an operator', async () => {
    const { clock, jwt } = setUp();
    const token = await sign({ ...claims(clock), realm_access: { roles: ['operator', 'admin'] } });
    expect((await jwt.verify(token)).principal.roles).toEqual(['admin']);
  });

  it('grants nothing for roles of another shape', async () => {
    const { clock, jwt } = setUp();
    for (const realm_access of [undefined, 'admin', { roles: { 0: 'admin' } }, { roles: [1] }]) {
      expect((await jwt.verify(await sign({ ...claims(clock), realm_access }))).principal.roles).toEqual([]);
    }
  });

  it.each([[['HS256']], [['none']], [['RS256', 'HS512']], [[]]])(
    'refuses to start with algorithms %j',
    (algorithms) => {
      const { keys, clock } = setUp();
      expect(() => new JwtVerifier({ ...SETTINGS, algorithms }, keys, clock)).toThrow(RangeError);
    },
  );
});

describe('key set', () => {
  it('is read once for many tokens, once more for an unknown kid, then not within the cooldown', async () => {
    let reads = 0;
    const { clock, jwt } = setUp(async () => {
      reads++;
      return jwks;
    });
    await Promise.all(Array.from({ length: 5 }, async () => jwt.verify(await sign(claims(clock)))));
    expect(reads).toBe(1);
    clock.advance(30_000);
    const unknown = await sign(claims(clock), { kid: 'k2' });
    await Promise.allSettled(Array.from({ length: 5 }, () => jwt.verify(unknown)));
    await jwt.verify(unknown).catch(() => undefined);
    expect(reads).toBe(2);
    clock.advance(30_000);
    await jwt.verify(unknown).catch(() => undefined);
    expect(reads).toBe(3);
  });

  it('picks up a new key when its kid is first seen', async () => {
    let current = JSON.stringify({ keys: [] });
    const { clock, jwt, keys } = setUp(async () => current);
    await keys.load();
    current = jwks;
    clock.advance(30_000);
    await expect(jwt.verify(await sign(claims(clock)))).resolves.toBeDefined();
  });

  it('keeps the keys it has when a refresh fails', async () => {
    let away = false;
    const { clock, jwt } = setUp(async () => {
      if (away) throw new Error('away');
      return jwks;
    });
    await jwt.verify(await sign(claims(clock)));
    away = true;
    clock.advance(700_000);
    await expect(jwt.verify(await sign(claims(clock)))).resolves.toBeDefined();
  });

  it('answers 503 until it has been read, without flooding the issuer', async () => {
    let reads = 0;
    const { clock, jwt } = setUp(async () => {
      reads++;
      throw new Error('away');
    });
    for (let i = 0; i < 5; i++) {
      await expect(jwt.verify(await sign(claims(clock)))).rejects.toMatchObject({ code: 'SERVICE_UNAVAILABLE' });
    }
    expect(reads).toBe(1);
  });

  it('is read periodically, so that a withdrawn key stops working', async () => {
    let current = jwks;
    const { clock, jwt, keys } = setUp(async () => current);
    keys.start();
    await keys.load();
    const token = await sign({ ...claims(clock), exp: seconds(clock) + 3_000 });
    await expect(jwt.verify(token)).resolves.toBeDefined();
    current = JSON.stringify({ keys: [] });
    await clock.run(300_000);
    await expect(jwt.verify(token)).rejects.toMatchObject(refusal);
    current = jwks;
    await clock.run(300_000);
    await expect(jwt.verify(token)).resolves.toBeDefined();
    keys.stop();
  });

  it('verifies tokens with known keys at once while the issuer hangs', async () => {
    let hangs = false;
    const { clock, jwt, keys } = setUp(() => (hangs ? new Promise<string>(() => undefined) : Promise.resolve(jwks)));
    keys.start();
    await keys.load();
    hangs = true;
    await clock.run(300_000);
    const unknown = jwt.verify(await sign(claims(clock), { kid: 'k2' }));
    await expect(jwt.verify(await sign(claims(clock)))).resolves.toBeDefined();
    await clock.run(3_600_000);
    await expect(jwt.verify(await sign(claims(clock)))).resolves.toBeDefined();
    expect(await Promise.race([unknown, 'waits'])).toBe('waits');
    keys.stop();
  });

  it('is fetched through the given client', async () => {
    const asked: string[] = [];
    const source = remoteJwks(`${ISSUER}/jwks`, async (url) => {
      asked.push(url);
      return new Response(jwks);
    });
    const { clock, jwt } = setUp(source);
    await expect(jwt.verify(await sign(claims(clock)))).resolves.toBeDefined();
    expect(asked).toEqual(['https://issuer.test/jwks']);
    const failing = remoteJwks(`${ISSUER}/jwks`, async () => new Response('', { status: 302 }));
    await expect(failing()).rejects.toThrow('HTTP 302');
  });
});
