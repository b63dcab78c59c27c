import { HAS_OPENSSL, makeCertificates, startTlsNats, type TlsServer } from '@toolfleet/testing/tls-servers';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { OutgoingBody } from './codec.js';
import { NatsLink } from './nats-connection.js';
import { toNatsOptions } from './nats-options.js';

describe.skipIf(!HAS_OPENSSL)('NATS over TLS (needs openssl)', () => {
  const certificates = HAS_OPENSSL ? makeCertificates() : undefined!;
  let server: TlsServer;
  beforeAll(async () => {
    server = await startTlsNats(certificates);
  });
  afterAll(async () => {
    await server?.stop();
    certificates.remove();
  });

  const link = (ca?: string) =>
    new NatsLink({ ...toNatsOptions({ NATS_URL: server.url, NATS_TLS_CA: ca }), name: 'spec' });

  it('carries messages when its CA is configured', async () => {
    const connection = link(certificates.ca);
    await connection.connect();
    const heard = new Promise<string>((resolve) => {
      connection.subscribe('spec', ({ data }) => resolve(Buffer.from(data).toString()));
    });
    connection.publish('spec', new OutgoingBody('over TLS'));
    expect(await heard).toBe('over TLS');
    expect(connection.certificateExpiry!.getTime()).toBeGreaterThan(Date.now());
    await connection.close();
  });

  it.each([
    ['no CA', () => link()],
    ["another's CA", () => link(certificates.otherCa)],
  ])('is refused with %s', async (_what, made) => {
    await expect(made().connect()).rejects.toMatchObject({ code: 'NATS_AWAY' });
  });
});
