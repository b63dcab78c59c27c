import { createHash } from 'node:crypto';
import { ToolError, type Milliseconds } from '@toolfleet/contracts';
import type { Clock } from '@toolfleet/resilience';
import type { SignedTokens } from './signed-tokens.js';

/** For how long a link counts. The page that it opens stays reachable without one. */
const LINK_MS: Milliseconds = 3_600_000;
/** Page of the console; the first gateway that serves one serves it (apps/console). */
const PAGE = '/console';
/** Where authorization servers send the browser back to. */
const RETURN_PATH = `${PAGE}/connected`;

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
    throw new ToolError('REQUEST_INVALID', {
      message: `This link was made for another user, was altered, or is older than an hour; open the page Connections to connect ${source} for yourself`,
      details: { fields: ['link'] },
    });
  }
}

/** The address at which the page takes the answer of an authorization server. @param base public address of the gateway */
export const connectReturnUrl = (base: string): string => `${base}${RETURN_PATH}`;

const bindingOf = ({ tenantId, userId }: LinkedUser, source: string): string =>
  createHash('sha256')
    .update(JSON.stringify(['connect_link', tenantId, userId, source]))
    .digest('base64url');
