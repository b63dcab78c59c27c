import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { extname, join, relative, sep } from 'node:path';
import { gzipSync } from 'node:zlib';
import { ToolError } from '@toolfleet/contracts';
import type { ServiceHost } from '@toolfleet/service';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { Mounted } from '../server/gateway-server.js';
import { sendError } from '../server/error.filter.js';

/**
 * Serves the files of the web console (half a megabyte), read into memory when the gateway starts. A request is
 * looked up by its exact path, so that no path of a client reaches the file system.
 */

/** Path of the console, the same as in its build (apps/console/vite.config.ts). */
const CONSOLE_PATH = '/console';
/** Pages to which authorization servers send browsers back, one for each source; the console reads the address. */
const RETURN_PATHS = `${CONSOLE_PATH}/connected/`;
const INDEX = 'index.html';
/** Names under this folder carry a hash of their content. */
const HASHED = 'assets/';
const LONG = 'public, max-age=31536000, immutable';
/** Compression does not pay for smaller files. */
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
interface ConsoleFile {
  body: Buffer;
  /** The compressed body; absent for small files. */
  gzip?: Buffer;
  type: string;
  etag: string;
  cacheControl: string;
}

/** Reads the files by URL path. @throws Error when the folder cannot be read or has no index.html */
async function readConsole(folder: string): Promise<ReadonlyMap<string, ConsoleFile>> {
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
      gzip: body.length >= LEAST_GZIPPED ? gzipSync(body) : undefined,
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

/**
 * Only scripts of the console run and they can connect only to this gateway: text of a tool that ends up in a page as markup does
 * not run, and a key in the browser cannot be sent elsewhere.
 */
const HEADERS = {
  'Content-Security-Policy': [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "img-src 'self' blob:", // pictures and sounds of results
    'media-src blob:',
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
    "require-trusted-types-for 'script'",
    "trusted-types 'none'",
  ].join('; '),
  'X-Content-Type-Options': 'nosniff',
  'Referrer-Policy': 'no-referrer',
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Cross-Origin-Resource-Policy': 'same-origin',
  'Permissions-Policy': 'camera=(), geolocation=(), microphone=()',
};

/** The web console at `/console`. Its files need no credential; the API calls they make do. */
export class MountedConsole implements Mounted {
  constructor(
    /** Folder of the built console; without one, the gateway serves no console. */
    private readonly folder: string | undefined,
    private readonly host: Pick<ServiceHost, 'logger' | 'faults'>,
  ) {}

  async mount(fastify: FastifyInstance): Promise<void> {
    const files = await this.read();
    const serve = (request: FastifyRequest, reply: FastifyReply): void => {
      const path = request.url.split('?', 1)[0]!;
      const file = files?.get(path.startsWith(RETURN_PATHS) ? CONSOLE_PATH : path);
      if (file) return send(request, reply, file);
      const message = files
        ? 'No such file of the console'
        : 'This gateway serves no console: set CONSOLE_DIR to the folder of a built one';
      sendError(reply, request.url, new ToolError('NOT_FOUND', { message }));
    };
    for (const url of [CONSOLE_PATH, `${CONSOLE_PATH}/*`])
      fastify.route({ method: ['GET', 'HEAD'], url, handler: serve });
  }

  private async read(): Promise<ReadonlyMap<string, ConsoleFile> | undefined> {
    if (!this.folder) return undefined;
    try {
      return await readConsole(this.folder);
    } catch (error) {
      this.host.logger.warn({ error, folder: this.folder }, 'the console cannot be read and is not served');
      this.host.faults.set('console', [`${this.folder} cannot be read; the console is not served: ${String(error)}`]);
      return undefined;
    }
  }
}

function send(request: FastifyRequest, reply: FastifyReply, file: ConsoleFile): void {
  const packed = file.gzip !== undefined && /\bgzip\b/.test(request.headers['accept-encoding'] ?? '');
  void reply.headers({ ...HEADERS, 'Cache-Control': file.cacheControl, ETag: file.etag, Vary: 'Accept-Encoding' });
  if (isKnown(request.headers['if-none-match'], file.etag)) return void reply.status(304).send();
  if (packed) void reply.header('Content-Encoding', 'gzip');
  void reply.type(file.type).send(packed ? file.gzip : file.body);
}

/** `If-None-Match` (RFC 9110 section 13.1.2): a list, compared weakly. */
function isKnown(header: string | undefined, etag: string): boolean {
  return header !== undefined && header.split(',').some((tag) => tag.trim().replace(/^W\//, '') === etag);
}
