import { closeSync, mkdtempSync, openAsBlob, openSync, renameSync, rmSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { AwsClient } from 'aws4fetch';
import { CliError, EXIT } from './cli-error.js';
import type { Environment } from './connection.js';
import type { Terminal } from './terminal.js';

/** Where an export is written, piece by piece. */
export interface ExportSink {
  write(piece: string | Uint8Array): void;
  /** Makes the export visible under its name. @throws CliError */
  end(): Promise<void>;
  /** Leaves nothing of an export that failed. */
  abandon(): void;
}

/**
 * Opens standard output (undefined or `-`), a file, or an object `s3://bucket/key`. A file or an object appears whole or not at all.
 * @throws CliError when it cannot be written
 */
export function openSink(target: string | undefined, terminal: Terminal, environment: Environment): ExportSink {
  if (target === undefined || target === '-') return new OutputSink(terminal);
  if (!target.startsWith('s3://')) return new FileSink(target);
  return new S3Sink(readObject(target, environment));
}

class OutputSink implements ExportSink {
  constructor(private readonly terminal: Terminal) {}

  write(piece: string | Uint8Array): void {
    if (typeof piece === 'string') this.terminal.out(piece);
    else this.terminal.bytes(piece);
  }

  async end(): Promise<void> {}

  abandon(): void {}
}

/** A file, written under another name until it is complete. */
class FileSink implements ExportSink {
  readonly #part: string;
  readonly #file: number;

  constructor(private readonly path: string) {
    this.#part = `${path}.part`;
    try {
      this.#file = openSync(this.#part, 'w');
    } catch (error) {
      throw new CliError(`--output ${path} cannot be written: ${(error as Error).message}`, EXIT.usage);
    }
  }

  write(piece: string | Uint8Array): void {
    const bytes = typeof piece === 'string' ? Buffer.from(piece) : piece;
    for (let from = 0; from < bytes.length;) from += writeSync(this.#file, bytes, from);
  }

  async end(): Promise<void> {
    closeSync(this.#file);
    renameSync(this.#part, this.path);
  }

  abandon(): void {
    closeSync(this.#file);
    rmSync(this.#part, { force: true });
  }
}

interface S3Object {
  url: string;
  accessKeyId: string;
  secretAccessKey: string;
  sessionToken?: string | undefined;
  region: string;
}

/** @throws CliError for an address without a key, or without credentials in the environment */
function readObject(target: string, { env }: Environment): S3Object {
  const [, bucket, key] = /^s3:\/\/([a-z0-9][a-z0-9.-]{1,62})\/(.+)$/.exec(target) ?? [];
  if (bucket === undefined || key === undefined)
    throw new CliError(`--output ${target} must be s3://<bucket>/<key>`, EXIT.usage);
  const { AWS_ACCESS_KEY_ID: accessKeyId, AWS_SECRET_ACCESS_KEY: secretAccessKey } = env;
  if (!accessKeyId || !secretAccessKey)
    throw new CliError(
      '--output s3://… needs AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the environment; or pipe the export to the client of your storage',
      EXIT.usage,
    );
  const region = env['AWS_REGION'] ?? env['AWS_DEFAULT_REGION'] ?? 'us-east-1';
  const endpoint = env['AWS_ENDPOINT_URL_S3'] ?? env['AWS_ENDPOINT_URL'];
  const path = key.split('/').map(encodeURIComponent).join('/');
  const base = endpoint ? `${endpoint.replace(/\/+$/, '')}/${bucket}` : `https://s3.${region}.amazonaws.com/${bucket}`;
  return { url: `${base}/${path}`, accessKeyId, secretAccessKey, sessionToken: env['AWS_SESSION_TOKEN'], region };
}

/** An object of an S3-compatible bucket, uploaded with one request from a temporary file of known length. */
class S3Sink implements ExportSink {
  readonly #folder = mkdtempSync(join(tmpdir(), 'fleetctl-export-'));
  readonly #file = new FileSink(join(this.#folder, 'object'));

  constructor(private readonly object: S3Object) {}

  write(piece: string | Uint8Array): void {
    this.#file.write(piece);
  }

  async end(): Promise<void> {
    await this.#file.end();
    try {
      await this.#upload(join(this.#folder, 'object'));
    } finally {
      rmSync(this.#folder, { recursive: true, force: true });
    }
  }

  async #upload(path: string): Promise<void> {
    const { url, ...credentials } = this.object;
    const { sessionToken, ...keys } = credentials;
    const signer = new AwsClient({ ...keys, ...(sessionToken && { sessionToken }), service: 's3', retries: 0 });
    const { url: signed, headers } = await signer.sign(url, { method: 'PUT' });
    const sent = fetch(signed, { method: 'PUT', headers, body: await openAsBlob(path), redirect: 'error' });
    const response = await sent.catch((error: unknown) => {
      throw new CliError(`${url} cannot be reached: ${(error as Error).message}`, EXIT.connection);
    });
    if (response.ok) return;
    const [, code = ''] = /<Code>(\w+)<\/Code>/.exec(await response.text()) ?? [];
    throw new CliError(`The storage answered ${response.status} ${code} to PUT ${url}`.replace('  ', ' '));
  }

  abandon(): void {
    this.#file.abandon();
    rmSync(this.#folder, { recursive: true, force: true });
  }
}
