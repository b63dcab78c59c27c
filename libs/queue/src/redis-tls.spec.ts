import { HAS_OPENSSL, makeCertificates, startTlsRedis, type TlsServer } from '@toolfleet/testing/tls-servers';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { closeRedis, connectRedis, openRedis, redisComponent } from './redis-connection.js';
import { toRedisOptions } from './redis-connection.js';

describe.skipIf(!HAS_OPENSSL)('Redis over TLS (needs openssl)', () => {
  const certificates = HAS_OPENSSL ? makeCertificates() : undefined!;
  let server: TlsServer;
  beforeAll(async () => {
    server = await startTlsRedis(certificates);
  });
  afterAll(async () => {
    await server?.stop();
    certificates.remove();
  });

  const connect = (url: string, ca?: string) =>
    connectRedis(url, { name: 'spec', ...toRedisOptions({ REDIS_TLS_CA: ca }) });

  it('is used when its CA is known', async () => {
    const client = connect(server.url, certificates.ca);
    await openRedis(client, server.url);
    expect(await client.ping()).toBe('PONG');
    expect(redisComponent(client, server.url).expiresAt()!.getTime()).toBeGreaterThan(Date.now());
    await closeRedis(client);
  });

  it.each([
    ['no CA', (url: string) => connect(url)],
    ["another's CA", (url: string) => connect(url, certificates.otherCa)],
  ])('is refused with %s, in one line that says why', async (_what, made) => {
    const client = made(server.url);
    await expect(openRedis(client, server.url)).rejects.toThrow(/^no Redis at rediss:.*certificate/);
    await closeRedis(client);
  });

  it('fails permanently when the CA file is missing', () => {
    expect(() => toRedisOptions({ REDIS_TLS_CA: '/nowhere/ca.pem' })).toThrow(
      expect.objectContaining({ startRefused: true, message: expect.stringMatching(/^REDIS_TLS_CA cannot be read/) }),
    );
  });
});
