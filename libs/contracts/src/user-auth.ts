import { choice, closed, integer, list, maybe, text, type Value } from './json-schema.js';

/** How users get the credential that calls of a source's tools act with upstream. */
export const USER_AUTH_MODES = ['api_key', 'connect', 'exchange', 'id_jag'] as const;
export type UserAuthMode = (typeof USER_AUTH_MODES)[number];

/** The fields of `auth.user`, as the configuration file and registrations have them. */
const USER_AUTH = {
  /**
   * `api_key`: each user enters a personal key. `connect`: each user signs in at the authorization server (OAuth 2.1 code flow, PKCE).
   * `exchange`: the token of the user's sign-in is exchanged (RFC 8693). `id_jag`: the company's identity provider asserts the user to the
   * authorization server of the source (Identity Assertion Authorization Grant).
   */
  mode: choice(USER_AUTH_MODES),
  /** Header of the credential; default `Authorization: Bearer`, or the place that `auth_type` and the OpenAPI document declare. */
  header: maybe(text(undefined, { pattern: "^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}$", title: 'the name of a header' })),
  /** Where users get a key, shown to them. */
  help: maybe(text(undefined, { maxLength: 500 })),
  /** Of the authorization server. Its metadata (RFC 8414, OpenID Connect Discovery) names the endpoints that are not given. */
  issuer: maybe(text()),
  authorization_url: maybe(text()),
  token_url: maybe(text()),
  client_id: maybe(text()),
  /** `${VAR}`, or sealed for the source; absent: a public client. */
  client_secret: maybe(text()),
  scopes: maybe(list(text(), undefined, { maxItems: 100 })),
  /** Resource indicator (RFC 8707). Without issuer and URLs, its metadata (RFC 9728) names the authorization server. */
  resource: maybe(text()),
  /** Mode `exchange`: the grant; `on_behalf_of` is Entra ID's. Default `token_exchange`. */
  grant: maybe(choice(['token_exchange', 'on_behalf_of'])),
  /** Modes `exchange` and `id_jag`. */
  audience: maybe(text()),
  /** Mode `id_jag`: who asserts the user; default: the provider of `sign_in`. */
  identity: maybe(
    closed({ issuer: maybe(text()), token_url: maybe(text()), client_id: maybe(text()), client_secret: maybe(text()) }),
  ),
  /** Mode `connect`: for how long the server takes a refresh token again that it has replaced. */
  refresh_grace_seconds: maybe(integer(undefined, { minimum: 1, maximum: 3_600 })),
};
export const USER_AUTH_SCHEMA = closed(USER_AUTH);

/** The settings, and additions of the registry. */
export const BOUND_USER_AUTH = closed({
  ...USER_AUTH,
  /** Origins that get the credential, as the registry finds them in the source. Users consent to them; not a setting. */
  sent_to: maybe(list(text())),
});
/** `auth.user` of a source: its calls act upstream as the calling user. */
export type UserAuth = Value<typeof BOUND_USER_AUTH>;

/** `auth` of a source. */
export interface SourceAuth {
  user: UserAuth;
}

/** Whether the credential of a user comes from the sign-in, so that there is nothing to connect. */
export const usesSignIn = ({ mode }: Pick<UserAuth, 'mode'>): boolean => mode === 'exchange' || mode === 'id_jag';

/** The id of a source in grants and links: `mcp/crm`, of a tenant `mcp/crm@acme`. */
export const sourceId = ({ kind, name }: { kind: string; name: string }): string => `${kind}/${name}`;
