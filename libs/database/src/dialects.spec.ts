import { POSTGRES_PROGRAMS, startPostgres, type PostgresServer } from '@toolfleet/testing';
import { HAS_OPENSSL, makeCertificates } from '@toolfleet/testing/tls-servers';
import { Kysely, sql } from 'kysely';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { postgresDialect } from './dialects.js';

const isPossible = HAS_OPENSSL && POSTGRES_PROGRAMS !== undefined;

describe.skipIf(!isPossible)('PostgreSQL over TLS (needs openssl and postgres)', () => {
  const certificates = isPossible ? makeCertificates() : undefined!;
  let server: PostgresServer;
  beforeAll(async () => {
    server = await startPostgres({ tls: certificates });
    await server.createDatabase('ledger');
  });
  afterAll(async () => {
    await server?.stop();
    certificates.remove();
  });

  const isEncrypted = async (tlsCa?: string) => {
    const database = new Kysely<object>({
      dialect: postgresDialect(server.tlsUrl('ledger'), { tlsCa, application: 'spec' }),
    });
    try {
      const question = sql<{ ssl: boolean }>`select ssl from pg_stat_ssl where pid = pg_backend_pid()`;
      return (await question.execute(database)).rows[0]?.ssl;
    } finally {
      await database.destroy();
    }
  };

  it('is used when its CA is known', async () => {
    expect(await isEncrypted(certificates.ca)).toBe(true);
  });

  it("is refused with another's CA, and never spoken to in the clear", async () => {
    await expect(isEncrypted(certificates.otherCa)).rejects.toThrow(/certificate/);
    await expect(isEncrypted()).rejects.toThrow(/no encryption|pg_hba/);
  });
});
