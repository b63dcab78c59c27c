import { readFile, stat } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { ToolError } from '@toolfleet/contracts';
import { DEFAULT_MAX_SPEC_BYTES } from '@toolfleet/openapi';

/** Output of a command: the terminal, or a buffer in tests. */
export interface TextSink {
  /** False requests the writer to wait for `drain`. */
  write(text: string): boolean;
  once?(event: 'drain', listener: () => void): unknown;
}

/** The process as these commands see it. */
export interface CommandIo {
  stdout: TextSink;
  stderr: TextSink;
  env: Readonly<Record<string, string | undefined>>;
}

const FETCH_TIMEOUT_MS = 30_000;

/** Largest document in bytes: the option, or else the variable that the services use. */
export function readMaxBytes(option: string | undefined, io: CommandIo): number {
  const given = Number(option ?? io.env.OPENAPI_MAX_SPEC_SIZE);
  return Number.isInteger(given) && given > 0 ? given : DEFAULT_MAX_SPEC_BYTES;
}

/**
 * Text of an OpenAPI document from a file, a `file:` URL or an http(s) URL. The program runs with the rights of its
 * user, so the egress rules of the fleet do not apply.
 * @throws ToolError SPEC_INVALID when it cannot be read or has more than `maxBytes` bytes
 */
export async function readSpec(source: string, maxBytes: number): Promise<string> {
  if (/^https?:\/\//i.test(source)) return fetchSpec(source, maxBytes);
  const file = /^file:\/\//i.test(source) ? fileURLToPath(source) : source;
  try {
    const { size } = await stat(file);
    if (size > maxBytes) throw tooLarge(maxBytes);
    return await readFile(file, 'utf8');
  } catch (error) {
    if (error instanceof ToolError) throw error;
    const why = (error as NodeJS.ErrnoException).code === 'ENOENT' ? 'there is no such file' : (error as Error).message;
    throw new ToolError('SPEC_INVALID', { message: `SPEC_PARSE_ERROR: cannot read ${source}: ${why}` });
  }
}

async function fetchSpec(url: string, maxBytes: number): Promise<string> {
  try {
    const response = await fetch(url, {
      signal: AbortSignal.timeout(FETCH_TIMEOUT_MS),
      headers: { accept: 'application/json, application/yaml, */*;q=0.5' },
    });
    if (!response.ok) throw new Error(`HTTP ${response.status}`);
    return await readSpecBody(response, maxBytes);
  } catch (error) {
    if (error instanceof ToolError) throw error;
    throw new ToolError('SPEC_INVALID', { message: `SPEC_FETCH_REFUSED: cannot fetch ${url}: ${fetchFailure(error)}` });
  }
}

/** The text of a response. @throws ToolError SPEC_INVALID when it has more than `maxBytes` bytes; Error when it breaks off */
export async function readSpecBody(response: Response, maxBytes: number): Promise<string> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of response.body ?? []) {
    size += chunk.byteLength;
    if (size > maxBytes) throw tooLarge(maxBytes);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}

/** Why `fetch` failed: the message of the cause, because `fetch failed` alone is useless. */
export function fetchFailure(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error.cause instanceof Error ? error.cause.message : error.message;
}

function tooLarge(maxBytes: number): ToolError {
  return new ToolError('SPEC_INVALID', {
    message: `SPEC_TOO_LARGE: the document has more than ${maxBytes} bytes; raise --max-bytes`,
  });
}
