import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

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
