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

/**
 * An S3 server of the developer for the tests of workspaces, in addition to the one in memory: `S3_TEST_ENDPOINT`, `S3_TEST_KEY_ID` and `S3_TEST_SECRET`. Its
 * bucket has the name `bucket`; it has to keep conditions of PUT. Undefined where none is named.
 */
export const S3_OF_YOUR_OWN = named(process.env);

function named(env: NodeJS.ProcessEnv) {
  const { S3_TEST_ENDPOINT: endpoint, S3_TEST_KEY_ID: accessKeyId, S3_TEST_SECRET: secretAccessKey } = env;
  if (!endpoint || !accessKeyId || !secretAccessKey) return undefined;
  return { endpoint: new URL(endpoint).origin, accessKeyId, secretAccessKey };
}
