import type { Principal } from '@toolfleet/contracts';
import { type Authenticate, authenticateRequest, sameAs } from './authenticate.js';
import { headerValues, readRawCredential } from './credential.js';
import { requireRight } from './roles.js';

/**
 * Authorizes the registration of sources: administrators for their tenant, operators for the fleet, and the holder of
 * `MCP_REGISTER_TOKEN` (as `Authorization: Bearer` or `X-API-Key`, or `X-Admin-Token` as Shannon's clients send it), who counts as an operator.
 */
export class RegisterAuth {
  private readonly isToken: ((presented: string) => boolean) | undefined;

  constructor(
    private readonly authenticate: Authenticate,
    registerToken: string | undefined,
  ) {
    this.isToken = registerToken === undefined ? undefined : sameAs(registerToken);
  }

  /**
   * Requires the right `manage_sources`, and notes the sender in the request.
   * @returns undefined for the holder of the token, who acts for the whole fleet
   * @throws ToolError UNAUTHENTICATED, PERMISSION_DENIED
   */
  async admit(request: { raw: { rawHeaders: string[] }; principal?: Principal }): Promise<Principal | undefined> {
    const principal = await this.prove(request.raw.rawHeaders);
    if (principal) request.principal = principal;
    if (principal) requireRight(principal, 'manage_sources');
    return principal;
  }

  /**
   * Identifies the sender of a request, whatever its role.
   * @returns undefined for the holder of the token
   * @throws ToolError UNAUTHENTICATED
   */
  async prove(rawHeaders: readonly string[]): Promise<Principal | undefined> {
    return this.holdsToken(rawHeaders) ? undefined : authenticateRequest(this.authenticate, rawHeaders);
  }

  private holdsToken(rawHeaders: readonly string[]): boolean {
    if (!this.isToken) return false;
    const [adminToken] = headerValues(rawHeaders, 'x-admin-token');
    if (adminToken !== undefined && this.isToken(adminToken)) return true;
    const credential = readRawCredential(rawHeaders);
    return credential !== undefined && this.isToken(credential.token);
  }
}
