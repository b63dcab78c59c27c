import { isToolError, ToolError } from '@toolfleet/contracts';
import * as oauth from 'oauth4webapi';

/** Endpoints and features of an authorization server: from its metadata, or from a configuration that names its endpoints. */
export type ServerMetadata = oauth.AuthorizationServer;

/**
 * Reads the metadata of an issuer: RFC 8414, OpenID Connect Discovery 1.0, and the latter at the address of the former (RFC 8414 section 5).
 * The issuer that they name has to be this one; a last slash more or less is the same issuer, spelled as the server does.
 * @returns undefined when the server answers and has none
 * @throws ToolError AUTH_NOT_CONFIGURED for the metadata of another issuer; NETWORK_ERROR
 */
export async function discoverServer(issuer: string, request: typeof fetch): Promise<ServerMetadata | undefined> {
  const expected = new URL(issuer);
  const path = expected.pathname.replace(/\/$/, '');
  const places = [
    `/.well-known/oauth-authorization-server${path}`,
    `${path}/.well-known/openid-configuration`,
    `/.well-known/openid-configuration${path}`,
  ];
  let cause: unknown;
  for (const place of new Set(places)) {
    try {
      const response = await request(new URL(place, expected), { headers: { accept: 'application/json' } });
      if (response.status >= 500) throw new Error(`HTTP ${response.status}`);
      if (response.ok) return await oauth.processDiscoveryResponse(expected, response);
      await response.body?.cancel();
    } catch (error) {
      const other = otherIssuer(error);
      if (other && sameIssuer(other.issuer, issuer)) return other;
      if (other) {
        const message = `The metadata of the issuer ${issuer} belong to the issuer ${other.issuer.slice(0, 200)}`;
        throw new ToolError('AUTH_NOT_CONFIGURED', { message, cause: error });
      }
      if (isToolError(error) && error.code !== 'NETWORK_ERROR') throw error;
      cause = error;
    }
  }
  if (cause === undefined) return undefined;
  throw new ToolError('NETWORK_ERROR', { message: `The metadata of ${issuer} cannot be read`, cause });
}

/** The metadata that an error refuses because they name another issuer. */
function otherIssuer(error: unknown): ServerMetadata | undefined {
  if (!(error instanceof oauth.OperationProcessingError) || error.code !== oauth.JSON_ATTRIBUTE_COMPARISON) return;
  return (error.cause as { body: ServerMetadata }).body;
}

/** True for issuers that differ by a last slash at most. */
export const sameIssuer = (a: string, b: string): boolean => a.replace(/\/$/, '') === b.replace(/\/$/, '');
