import { ToolError } from '@toolfleet/contracts';
import type { Logger } from '@toolfleet/telemetry';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { Mounted } from '../gateway-server.js';
import { CONSOLE_PATH, readConsole, type ConsoleFile } from './console-files.js';
import { sendError } from './error.filter.js';

/**
 * Nothing but the console's own files runs, and it speaks to nobody but this gateway: a text of a tool that gets into a
 * page as markup stays text, and a key in the browser has nowhere to go.
 */
const HEADERS = {
  'Content-Security-Policy': [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "img-src 'self'",
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

/** The web console at `/console`: static files without a credential; everything they show is asked from the API with one. */
export class MountedConsole implements Mounted {
  constructor(
    /** Folder of the built console; undefined or empty: this gateway serves none. */
    private readonly folder: string | undefined,
    private readonly logger: Pick<Logger, 'warn'>,
  ) {}

  async mount(fastify: FastifyInstance): Promise<void> {
    const files = await this.read();
    const serve = (request: FastifyRequest, reply: FastifyReply): void => {
      const path = request.url.split('?', 1)[0]!;
      const file = files?.get(path);
      if (file) return send(request, reply, file);
      const message = files
        ? 'No such file of the console'
        : 'This gateway serves no console: CONSOLE_DIR names no folder with a built one';
      sendError(reply, request.url, new ToolError('NOT_FOUND', { message }));
    };
    for (const url of [CONSOLE_PATH, `${CONSOLE_PATH}/*`])
      fastify.route({ method: ['GET', 'HEAD'], url, handler: serve });
  }

  async drain(): Promise<void> {
    // Files are sent whole; the server waits for its answers.
  }

  private async read(): Promise<ReadonlyMap<string, ConsoleFile> | undefined> {
    if (!this.folder) return undefined;
    try {
      return await readConsole(this.folder);
    } catch (error) {
      this.logger.warn({ error, folder: this.folder }, 'the console cannot be read; the gateway works without it');
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
