import { isToolError, toToolError, ToolError } from '@toolfleet/contracts';
import { MAX_SIGN_IN_BODY, type IdentityHttp, type IdentityHttpReply } from '@toolfleet/contracts/sign-in';
import type { KeyLimits, Tier } from '@toolfleet/access';
import type { NatsClient } from '@toolfleet/transport';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { sendError } from './error.filter.js';
import type { Mounted } from './gateway-server.js';
import { publicBase, type PublicAddress } from './public-origin.js';

/** Paths of the sign-in of people and of OAuth clients. */
const PATHS = ['/auth/*', '/oauth/*'];
/** Headers that the service `identity` reads; all others stay here. */
const PASSED = new Set(['accept', 'authorization', 'content-type', 'cookie', 'origin', 'sec-fetch-site', 'user-agent']);
/** Cookies that belong to it. The session cookie of the console is not among them. */
const COOKIES = /^(?:__Host-toolfleet-(?!session$)|toolfleet-oauth-)/;
/** Requests at once that wait for the service: anyone can send them, so they get a share of it and no more. */
const MAX_WAITING = 64;
const ANSWER_MS = 20_000;
/** Requests of one address. A sign-in takes five; an OAuth client renews its token every ten minutes, and an office has one address. */
const PER_ADDRESS: Tier = { minute: 300, hour: 6_000, day: 60_000 };
/** Logouts come from the provider's address, signed and at once, and end sessions. */
const UNLIMITED = '/auth/backchannel-logout';

/**
 * Passes requests of sign-ins on to the service `identity` and its answers back. The gateway reads neither: it holds no secret of an OpenID
 * provider and no token that it would have to keep.
 */
export class IdentityPages implements Mounted {
  #waiting = 0;

  constructor(
    private readonly nats: Pick<NatsClient, 'ask'>,
    private readonly address: PublicAddress,
    /** Paths in addition to those below `/auth/` and `/oauth/`. */
    private readonly morePaths: readonly string[],
    /** Absent: all requests come from a proxy that limits addresses. */
    private readonly limits: KeyLimits | undefined,
    private readonly onLimited: () => void,
  ) {}

  async mount(fastify: FastifyInstance): Promise<void> {
    await fastify.register(async (scope) => {
      scope.removeAllContentTypeParsers();
      scope.addContentTypeParser('*', { parseAs: 'string' }, (_request, body, done) => done(null, body));
      for (const url of [...PATHS, ...this.morePaths])
        scope.route({
          method: ['GET', 'POST', 'OPTIONS'],
          url,
          // They are public, and their bodies small.
          bodyLimit: MAX_SIGN_IN_BODY,
          config: { admitsCallers: true },
          handler: (request, reply) => this.#serve(request, reply),
        });
    });
  }

  async #serve(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    try {
      const { status, headers, body } = await this.#pass(request);
      // A redirect to another site is the service's answer; it names only addresses that it has checked.
      for (const [name, value] of headers) void reply.header(name, value);
      return await reply.code(status).send(body);
    } catch (error) {
      sendError(reply, request.url, toToolError(error));
      return reply;
    }
  }

  /** @throws ToolError RATE_LIMITED */
  async #limit(address = ''): Promise<void> {
    const allowance = await this.limits?.take(`address:${networkOf(address)}`, PER_ADDRESS);
    if (!allowance || allowance.allowed) return;
    this.onLimited();
    const { window = 'minute', retryAfterMs = 1_000 } = allowance;
    const message = `Rate limit exceeded: ${PER_ADDRESS[window]} requests of sign-ins per ${window} and address`;
    throw new ToolError('RATE_LIMITED', { message, details: { window, limit: PER_ADDRESS[window] }, retryAfterMs });
  }

  async #pass({ raw, body, method }: FastifyRequest): Promise<IdentityHttpReply> {
    const base = publicBase(raw, this.address);
    if (base === undefined)
      throw new ToolError('NOT_FOUND', { message: 'There is no sign-in without GATEWAY_PUBLIC_URL; use an API key' });
    if (!raw.url?.startsWith(UNLIMITED)) await this.#limit(raw.socket.remoteAddress);
    if (this.#waiting >= MAX_WAITING)
      throw new ToolError('QUEUE_FULL', { message: 'Too many sign-ins at once; retry later', retryAfterMs: 1_000 });
    this.#waiting += 1;
    try {
      const message: IdentityHttp = {
        origin: new URL(base).origin,
        method,
        url: raw.url ?? '/',
        headers: passedHeaders(raw.rawHeaders),
        body: typeof body === 'string' ? body : undefined,
      };
      return await this.nats.ask('identity.http', message, { timeoutMs: ANSWER_MS });
    } catch (cause) {
      if (isToolError(cause) && cause.code === 'REQUEST_INVALID') throw cause;
      const message = 'The sign-in is unavailable; retry later, or use an API key';
      throw new ToolError('SERVICE_UNAVAILABLE', { message, cause });
    } finally {
      this.#waiting -= 1;
    }
  }
}

/** An IPv4 address, or the /64 network of an IPv6 address, of which a user has as many as it likes. */
function networkOf(address: string): string {
  const mapped = /^::ffff:([\d.]+)$/i.exec(address)?.[1];
  if (mapped !== undefined || !address.includes(':')) return mapped ?? address;
  const [head = '', tail] = address.split('%', 1)[0]!.split('::');
  const groups = head.split(':').filter(Boolean);
  const last = tail?.split(':').filter(Boolean) ?? [];
  const zeros = tail === undefined ? 0 : 8 - groups.length - last.length;
  return [...groups, ...Array.from({ length: zeros }, () => '0'), ...last].slice(0, 4).join(':');
}

function passedHeaders(rawHeaders: readonly string[]): string[][] {
  const passed: string[][] = [];
  for (let i = 0; i + 1 < rawHeaders.length; i += 2) {
    const name = rawHeaders[i]!.toLowerCase();
    if (!PASSED.has(name)) continue;
    const value = name === 'cookie' ? passedCookies(rawHeaders[i + 1]!) : rawHeaders[i + 1]!;
    if (value !== '') passed.push([name, value]);
  }
  return passed;
}

const passedCookies = (header: string): string =>
  header
    .split(';')
    .map((pair) => pair.trim())
    .filter((pair) => COOKIES.test(pair.split('=', 1)[0]!))
    .join('; ');
