import type { JsonObject } from './json.js';

/** How users get the credential that calls of a source's tools act with upstream. */
export const USER_AUTH_MODES = ['api_key', 'connect'] as const;
export type UserAuthMode = (typeof USER_AUTH_MODES)[number];

/** `auth.user` of a source: its calls act upstream as the calling user. */
export interface UserAuth {
  /** `api_key`: each user enters a personal key. `connect`: each user signs in at the authorization server (OAuth 2.1 code flow, PKCE). */
  mode: UserAuthMode;
  /** Header of the credential; default `Authorization: Bearer`, or the place that `auth_type` and the OpenAPI document declare. */
  header?: string;
  /** Where users get a key, shown to them. */
  help?: string;
  /** Of the authorization server. Its metadata (RFC 8414, OpenID Connect Discovery) names the endpoints that are not given. */
  issuer?: string;
  authorization_url?: string;
  token_url?: string;
  client_id?: string;
  /** `${VAR}`, or sealed for the source; absent: a public client. */
  client_secret?: string;
  scopes?: string[];
  /** Resource indicator (RFC 8707). */
  resource?: string;
}

/** `auth` of a source. */
export interface SourceAuth {
  user: UserAuth;
}

/** The fields of `auth.user`, as the configuration file and registrations have them. */
export const USER_AUTH_SCHEMA: JsonObject = {
  type: 'object',
  properties: {
    mode: { enum: [...USER_AUTH_MODES] },
    header: { type: 'string', pattern: "^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}$", title: 'the name of a header' },
    help: { type: 'string', maxLength: 500 },
    issuer: { type: 'string' },
    authorization_url: { type: 'string' },
    token_url: { type: 'string' },
    client_id: { type: 'string' },
    client_secret: { type: 'string' },
    scopes: { type: 'array', items: { type: 'string' }, maxItems: 100 },
    resource: { type: 'string' },
  },
  required: ['mode'],
  additionalProperties: false,
};

/** The id of a source in grants and links: `mcp/crm`, of a tenant `mcp/crm@acme`. */
export const sourceId = ({ kind, name }: { kind: string; name: string }): string => `${kind}/${name}`;
