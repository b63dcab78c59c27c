import type { JsonObject } from '@toolfleet/contracts';

/** Name of the protection space in `WWW-Authenticate`. */
const REALM = 'toolfleet';

/**
 * Value of `WWW-Authenticate` on every 401 (RFC 6750 section 3). With the address of the protected-resource metadata, as the
 * MCP door must send it (RFC 9728 section 5.1).
 */
export function challenge(resourceMetadataUrl?: string): string {
  const base = `Bearer realm="${REALM}"`;
  return resourceMetadataUrl === undefined ? base : `${base}, resource_metadata="${resourceMetadataUrl}"`;
}

/** The document at `/.well-known/oauth-protected-resource` (RFC 9728 section 2): which issuer's tokens this resource takes. */
export function protectedResourceMetadata(resource: string, issuer: string | undefined): JsonObject {
  return {
    resource,
    resource_name: REALM,
    bearer_methods_supported: ['header'],
    ...(issuer === undefined ? {} : { authorization_servers: [issuer] }),
  };
}
