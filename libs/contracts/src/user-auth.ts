import type { JsonObject } from '@toolfleet/base/json';

/** How users get the credential that calls of a source's tools act with upstream. */
export const USER_AUTH_MODES = ['api_key', 'connect', 'exchange', 'id_jag'] as const;
export type UserAuthMode = (typeof USER_AUTH_MODES)[number];

/** `auth.user` of a source: its calls act upstream as the calling user. */
export interface UserAuth {
  /**
   * `api_key`: each user enters a personal key. `connect`: each user signs in at the authorization server (OAuth 2.1 code flow, PKCE).
   * `exchange`: the token of the user's sign-in is exchanged (RFC 8693). `id_jag`: the company's identity provider asserts the user to the
   * authorization server of the source (Identity Assertion Authorization Grant).
   */
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
  /** Resource indicator (RFC 8707). Without issuer and URLs, its metadata (RFC 9728) names the authorization server. */
  resource?: string;
  /** Mode `exchange`: the grant; `on_behalf_of` is Entra ID's. Default `token_exchange`. */
  grant?: 'token_exchange' | 'on_behalf_of';
  /** Modes `exchange` and `id_jag`. */
  audience?: string;
  /** Mode `id_jag`: who asserts the user; default: the provider of `sign_in`. */
  identity?: { issuer?: string; token_url?: string; client_id?: string; client_secret?: string };
  /** Mode `connect`: for how long the server takes a refresh token again that it has replaced. */
  refresh_grace_seconds?: number;
  /** Origins that get the credential, as the registry finds them in the source. Users consent to them; not a setting. */
  sent_to?: string[];
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
    grant: { enum: ['token_exchange', 'on_behalf_of'] },
    audience: { type: 'string' },
    identity: {
      type: 'object',
      properties: {
        issuer: { type: 'string' },
        token_url: { type: 'string' },
        client_id: { type: 'string' },
        client_secret: { type: 'string' },
      },
      additionalProperties: false,
    },
    refresh_grace_seconds: { type: 'integer', minimum: 1, maximum: 3_600 },
  },
  required: ['mode'],
  additionalProperties: false,
};

/** Whether the credential of a user comes from the sign-in, so that there is nothing to connect. */
export const usesSignIn = ({ mode }: Pick<UserAuth, 'mode'>): boolean => mode === 'exchange' || mode === 'id_jag';

/** The id of a source in grants and links: `mcp/crm`, of a tenant `mcp/crm@acme`. */
export const sourceId = ({ kind, name }: { kind: string; name: string }): string => `${kind}/${name}`;
