import { createHash } from 'node:crypto';
import { invalidRequest, type Milliseconds } from '@toolfleet/contracts';
import type { Clock } from '@toolfleet/resilience';
import type { SignedTokens } from './signed-tokens.js';

/** For how long a link counts. The page that it opens stays reachable without one. */
const LINK_MS: Milliseconds = 3_600_000;
/** Page of the console; the first gateway that serves one serves it (apps/console). */
const PAGE = '/console';

/** A user of a tenant. */
interface LinkedUser {
  tenantId: string;
  userId: string;
}

/**
 * Links to the page where users connect accounts. A link is not a credential: the page is behind the sign-in of the console, and the mark in
 * the link only says for which user and source it was made, so that a link that reaches another person connects nothing.
 */
export class ConnectLinks {
  constructor(
    private readonly tokens: SignedTokens,
    private readonly clock: Clock,
    /** Public address of the gateway without a trailing slash; undefined: there is no page. */
    private readonly base: string | undefined,
  ) {}

  /** The address of the page for a user and a source (`mcp/crm`); undefined if there is none. */
  make(user: LinkedUser, source: string): string | undefined {
    if (this.base === undefined) return undefined;
    const mark = this.tokens.seal(bindingOf(user, source), {}, this.clock.now() + LINK_MS);
    return `${this.base}${PAGE}#/connections/${encodeURIComponent(source)}?link=${mark}`;
  }

  /** @throws ToolError REQUEST_INVALID for a mark that was made for another user or source, was altered, or has expired */
  check(user: LinkedUser, source: string, mark: string): void {
    if (this.tokens.unseal(bindingOf(user, source), mark)) return;
    throw invalidRequest(
      `This link was made for another user, was altered, or is older than an hour; open the page Connections to connect ${source} for yourself`,
      'link',
    );
  }
}

/** A program of the user; its port is free to choose (RFC 8252 section 7.3). */
const LOOPBACK = /^http:\/\/127\.0\.0\.1:\d{1,5}$/;

/**
 * Whether an authorization server may send the browser of a user to an address: the page of the source, or its path at a loopback port. Each
 * source has an address of its own, so that the code of one server is never taken for another's (mix-up, RFC 9700 section 4.4.2).
 * @param base public address of the gateway; undefined: there is no page
 */
export function isReturnUrl(url: string, base: string | undefined, source: string): boolean {
  const path = `/connected/${source}`;
  if (base !== undefined && url === `${base}${PAGE}${path}`) return true;
  return url.endsWith(path) && LOOPBACK.test(url.slice(0, -path.length));
}

const bindingOf = ({ tenantId, userId }: LinkedUser, source: string): string =>
  createHash('sha256')
    .update(JSON.stringify(['connect_link', tenantId, userId, source]))
    .digest('base64url');
