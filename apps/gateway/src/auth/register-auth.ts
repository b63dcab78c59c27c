import { hash, timingSafeEqual } from 'node:crypto';
import type { Principal } from '@toolfleet/contracts';
import { type Authenticate, callerOfRequest } from './authenticate.js';
import { credentialOfRawHeaders } from './credential.js';
import { requireAdmin } from './roles.js';

/**
 * Who may register sources: an administrator for its tenant, an operator for the fleet, and the holder of
 * `MCP_REGISTER_TOKEN` (as `Authorization: Bearer` or `X-Admin-Token`, the header Shannon's clients send), who counts as an operator.
 */
export class RegisterAuth {
  private readonly expected: Buffer | undefined;

  constructor(
    private readonly authenticate: Authenticate,
    registerToken: string | undefined,
  ) {
    this.expected = registerToken === undefined ? undefined : digest(registerToken);
  }

  /**
   * The administrator or operator; undefined for the holder of the token, who acts for the whole fleet.
   * @throws ToolError UNAUTHENTICATED, PERMISSION_DENIED
   */
  async admit(headers: { raw: { rawHeaders: string[] } }): Promise<Principal | undefined> {
    const principal = await this.prove(headers.raw.rawHeaders);
    if (principal) requireAdmin(principal);
    return principal;
  }

  /**
   * The sender of a request, whatever its role; undefined for the holder of the token.
   * @throws ToolError UNAUTHENTICATED
   */
  async prove(rawHeaders: readonly string[]): Promise<Principal | undefined> {
    return this.holdsToken(rawHeaders) ? undefined : callerOfRequest(this.authenticate, rawHeaders);
  }

  private holdsToken(rawHeaders: readonly string[]): boolean {
    if (this.expected === undefined) return false;
    const adminToken = valueOf(rawHeaders, 'x-admin-token');
    if (adminToken !== undefined && this.isToken(adminToken)) return true;
    const credential = credentialOfRawHeaders(rawHeaders);
    return credential?.kind === 'bearer' && this.isToken(credential.token);
  }

  private isToken(presented: string): boolean {
    return this.expected !== undefined && timingSafeEqual(digest(presented), this.expected);
  }
}

const digest = (text: string): Buffer => hash('sha256', text, 'buffer');

function valueOf(rawHeaders: readonly string[], name: string): string | undefined {
  for (let i = 0; i + 1 < rawHeaders.length; i += 2)
    if (rawHeaders[i]?.toLowerCase() === name) return rawHeaders[i + 1];
  return undefined;
}
