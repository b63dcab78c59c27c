import { X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';

const CERTIFICATE = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g;

/**
 * When the last certificate of a PEM file expires: during a rotation a CA file holds the old authority as well.
 * @returns undefined for a file that cannot be read or has no certificate; connections report that
 */
export function lastExpiry(file: string): Date | undefined {
  try {
    const texts = readFileSync(file, 'utf8').match(CERTIFICATE) ?? [];
    const ends = texts.map((text) => Date.parse(new X509Certificate(text).validTo));
    return ends.length === 0 ? undefined : new Date(Math.max(...ends));
  } catch {
    return undefined;
  }
}
