/** Brokers that speak TLS only, with certificates made for the test. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { connect } from 'node:tls';
import { answers, startBroker, type BrokerProcess } from './broker-process.js';
import type { Certificates } from './certificates.js';

export { HAS_OPENSSL, makeCertificates, type Certificates } from './certificates.js';

/** A broker and its address. */
export type TlsServer = BrokerProcess & { readonly url: string };

/** Redis with its plain port closed. */
export async function startTlsRedis({ ca, cert, key }: Certificates): Promise<TlsServer> {
  const broker = await startBroker({
    name: 'redis-server',
    programs: ['redis-server', 'valkey-server', '/usr/bin/redis-server'],
    args: (port, folder) => [
      ...['--port', '0', '--tls-port', String(port), '--bind', '127.0.0.1', '--dir', folder, '--save', ''],
      ...['--tls-cert-file', cert, '--tls-key-file', key, '--tls-ca-cert-file', ca, '--tls-auth-clients', 'no'],
      ...['--maxmemory-policy', 'noeviction'],
    ],
    serves: shakesHands,
  });
  return Object.assign(broker, { url: `rediss://127.0.0.1:${broker.port}` });
}

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
