import { appendFileSync, copyFileSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { X509Certificate } from 'node:crypto';
import { HAS_OPENSSL, makeCertificates } from '@toolfleet/testing/tls-servers';
import { expect, it } from 'vitest';
import { lastExpiry } from './certificate-expiry.js';

it.skipIf(!HAS_OPENSSL)('is the end of the last certificate of a file, also of one that is being rotated', () => {
  const certificates = makeCertificates();
  const folder = mkdtempSync(join(tmpdir(), 'toolfleet-expiry-'));
  try {
    const ends = [certificates.ca, certificates.otherCa].map((file) =>
      Date.parse(new X509Certificate(readFileSync(file)).validTo),
    );
    expect(lastExpiry(certificates.ca)).toEqual(new Date(ends[0]!));
    const both = join(folder, 'both.pem');
    copyFileSync(certificates.ca, both);
    appendFileSync(both, readFileSync(certificates.otherCa));
    expect(lastExpiry(both)).toEqual(new Date(Math.max(...ends)));
  } finally {
    rmSync(folder, { recursive: true });
    certificates.remove();
  }
});

it('is unknown for a file that cannot be read', () => {
  expect(lastExpiry('/nowhere/ca.pem')).toBeUndefined();
});
