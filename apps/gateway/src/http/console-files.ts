/**
 * The web console's files, read whole when the gateway starts. A request is looked up by its exact path in what was read,
 * so no path a client sends ever reaches the file system: there is nothing to traverse. Half a megabyte, hence no library
 * for files that stream, change or are ranged.
 */
import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { extname, join, relative, sep } from 'node:path';
import { gzipSync } from 'node:zlib';

/** Where the console is served. Its build knows the same path (apps/console/vite.config.ts). */
export const CONSOLE_PATH = '/console';
const INDEX = 'index.html';
/** Names under this folder carry a hash of their content. */
const HASHED = 'assets/';
const LONG = 'public, max-age=31536000, immutable';
/** Smaller ones do not get smaller. */
const LEAST_GZIPPED = 1_024;

const TYPES: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
  '.png': 'image/png',
  '.json': 'application/json; charset=utf-8',
  '.txt': 'text/plain; charset=utf-8',
};

/** A file ready to be sent. */
export interface ConsoleFile {
  body: Buffer;
  /** The same, packed; absent where it does not pay. */
  gzip?: Buffer;
  type: string;
  etag: string;
  cacheControl: string;
}

/** Files by URL path. @throws Error when the folder cannot be read or holds no console */
export async function readConsole(folder: string): Promise<ReadonlyMap<string, ConsoleFile>> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const files = new Map<string, ConsoleFile>();
  for (const entry of entries) {
    const type = TYPES[extname(entry.name)];
    if (!entry.isFile() || type === undefined) continue;
    const path = join(entry.parentPath, entry.name);
    const name = relative(folder, path).split(sep).join('/');
    const body = await readFile(path);
    files.set(`${CONSOLE_PATH}/${name}`, {
      body,
      ...(body.length >= LEAST_GZIPPED ? { gzip: gzipSync(body) } : {}),
      type,
      etag: `"${createHash('sha256').update(body).digest('base64url').slice(0, 22)}"`,
      cacheControl: name.startsWith(HASHED) ? LONG : 'no-cache',
    });
  }
  const index = files.get(`${CONSOLE_PATH}/${INDEX}`);
  if (!index) throw new Error(`${folder} holds no ${INDEX}`);
  files.set(CONSOLE_PATH, index);
  files.set(`${CONSOLE_PATH}/`, index);
  return files;
}
