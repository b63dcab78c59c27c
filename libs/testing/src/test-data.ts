import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const FOLDER = fileURLToPath(new URL('../../../test/data/', import.meta.url));

/** One attempt to reach a host that is not allowed (or a control that is): a row of `test/data/ssrf-vectors.json`. */
export interface SsrfVector {
  id: string;
  /** Class of the attempt: `loopback`, `dns`, … */
  cls: string;
  url: string;
  expect: 'block' | 'allow';
  /** Check that must catch it: before DNS, on the resolved address, or on the `Location` of a redirect. */
  layer: 'url' | 'connect' | 'redirect';
  why: string;
  /** Addresses the first DNS query returns, and any later one. */
  resolve?: string[];
  resolve_second?: string[];
  location?: string;
}

/**
 * The parsed content of a file below `test/data`.
 * @throws Error when there is no such file
 */
export function readTestData<T>(file: string): T {
  return JSON.parse(readFileSync(FOLDER + file, 'utf8')) as T;
}

/** The SSRF vectors that every way out of the fleet is tested with. */
export function readSsrfVectors(): SsrfVector[] {
  return readTestData<{ vectors: SsrfVector[] }>('ssrf-vectors.json').vectors;
}
