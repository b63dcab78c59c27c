import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { connect } from 'node:tls';
import { answers, startBroker, type BrokerProcess } from './broker-process.js';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';

/** A broker and its address. */
export type TlsServer = BrokerProcess & { readonly url: string };

/**
 * Redis with its plain port closed.
 * @param users lines of its ACL file; without one for the default user, that user may do everything
 */
export async function startTlsRedis(certificates: Certificates, users: readonly string[] = []): Promise<TlsServer> {
  const broker = await startRedisProgram(async (port, folder) => {
    const acl = join(folder, 'users.acl');
    await writeFile(acl, `${users.join('\n')}\n`);
    return [...tlsArgs(certificates, port, folder), '--save', '', '--maxmemory-policy', 'noeviction', '--aclfile', acl];
  });
  return Object.assign(broker, { url: `rediss://127.0.0.1:${broker.port}` });
}

/** One Sentinel with a password, over TLS only. It watches the server at `primaryPort` as `fleet`. */
export async function startTlsSentinel(
  certificates: Certificates,
  primaryPort: number,
  password: string,
): Promise<TlsServer> {
  const broker = await startRedisProgram(async (port, folder) => {
    const file = join(folder, 'sentinel.conf');
    await writeFile(file, `sentinel monitor fleet 127.0.0.1 ${primaryPort} 1\nrequirepass ${password}\n`);
    return [file, '--sentinel', ...tlsArgs(certificates, port, folder), '--tls-replication', 'yes'];
  });
  return Object.assign(broker, { url: `rediss+sentinel://127.0.0.1:${broker.port}/fleet` });
}

const startRedisProgram = (args: (port: number, folder: string) => Promise<string[]>): Promise<BrokerProcess> =>
  startBroker({
    name: 'redis-server',
    programs: ['redis-server', 'valkey-server', '/usr/bin/redis-server'],
    args,
    serves: shakesHands,
  });

const tlsArgs = ({ ca, cert, key }: Certificates, port: number, folder: string): string[] => [
  ...['--port', '0', '--tls-port', String(port), '--bind', '127.0.0.1', '--dir', folder],
  ...['--tls-cert-file', cert, '--tls-key-file', key, '--tls-ca-cert-file', ca, '--tls-auth-clients', 'no'],
];

/** NATS that demands TLS of every client. */
export async function startTlsNats({ cert, key }: Certificates): Promise<TlsServer> {
  const broker = await startBroker({
    name: 'nats-server',
    programs: ['nats-server', '/usr/sbin/nats-server'],
    async args(port, folder) {
      const file = join(folder, 'nats.conf');
      const tls = `tls { cert_file: ${JSON.stringify(cert)}, key_file: ${JSON.stringify(key)} }`;
      await writeFile(file, `host: 127.0.0.1\nport: ${port}\n${tls}\n`);
      return ['-c', file];
    },
    // NATS greets before it encrypts.
    serves: (port) => answers(port, '', 'INFO {'),
  });
  return Object.assign(broker, { url: `tls://127.0.0.1:${broker.port}` });
}

function shakesHands(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ port, host: '127.0.0.1', rejectUnauthorized: false });
    const end = (ok: boolean): void => {
      socket.destroy();
      resolve(ok);
    };
    socket.setTimeout(1_000, () => end(false));
    socket.once('secureConnect', () => end(true));
    socket.once('error', () => end(false));
  });
}

/** Files of a certification authority, a server's certificate by it for 127.0.0.1 and localhost, and another authority. */
export interface Certificates {
  readonly folder: string;
  readonly ca: string;
  readonly cert: string;
  readonly key: string;
  /** An authority that signed nothing here. */
  readonly otherCa: string;
  remove(): void;
}

/** False on a machine without `openssl`; suites that need it say `describe.skipIf(!HAS_OPENSSL)`. */
export const HAS_OPENSSL = spawnSync('openssl', ['version']).status === 0;

/** Makes certificates that are good for a day. */
export function makeCertificates(): Certificates {
  const folder = mkdtempSync(join(tmpdir(), 'toolfleet-tls-'));
  const file = (name: string): string => join(folder, name);
  const openssl = (...args: string[]): void => {
    const { status, stderr } = spawnSync('openssl', args, { cwd: folder, encoding: 'utf8' });
    if (status !== 0) throw new Error(`openssl ${args[0]} failed: ${stderr}`);
  };
  const newKey = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes'];
  for (const ca of ['ca', 'other-ca']) {
    openssl('req', '-x509', ...newKey, '-keyout', `${ca}.key`, '-out', `${ca}.pem`, '-days', '1', '-subj', `/CN=${ca}`);
  }
  writeFileSync(file('names.ext'), 'subjectAltName=IP:127.0.0.1,DNS:localhost\n');
  openssl('req', ...newKey, '-keyout', 'server.key', '-out', 'server.csr', '-subj', '/CN=localhost');
  const signing = ['-CA', 'ca.pem', '-CAkey', 'ca.key', '-CAcreateserial', '-extfile', 'names.ext', '-days', '1'];
  openssl('x509', '-req', '-in', 'server.csr', '-out', 'server.pem', ...signing);
  return {
    folder,
    ca: file('ca.pem'),
    cert: file('server.pem'),
    key: file('server.key'),
    otherCa: file('other-ca.pem'),
    remove: () => rmSync(folder, { recursive: true, force: true }),
  };
}
