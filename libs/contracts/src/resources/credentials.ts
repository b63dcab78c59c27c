import {
  choice,
  closed,
  flag,
  instant,
  integer,
  list,
  maybe,
  named,
  nullable,
  record,
  text,
  type Value,
} from '../json-schema.js';
import { MCP_MODES } from '../principal.js';
import { RIGHT_NAMES } from '../roles.js';
import { answer, empty, routes } from './route.js';

const ID = { minLength: 1, maxLength: 200 };

export const PERSON = named(
  'Person',
  record(
    {
      tenant_id: text(),
      user_id: text(),
      kind: text(
        'How the credential leads to it: `sign_in`, also by a JWT; `operator`, who made the key for it; `creator`, who made the key, also with other keys',
      ),
    },
    'The person that a credential counts as where people decide',
  ),
);
const ROLE = named(
  'Role',
  record({
    name: text(),
    rights: list(choice(RIGHT_NAMES), 'What it permits in the tenant of its holder'),
    declared: choice(['built_in', 'config'], 'Whether every fleet has it, or the configuration file of this one'),
    groups: list(text(), 'Groups of the OpenID provider that give it; of sign-ins to the tenant of the caller'),
  }),
);
/** A role of the fleet. */
export type RoleSummary = Value<typeof ROLE>;
const ME = named(
  'Me',
  record({
    tenant_id: text(),
    user_id: text(),
    roles: list(text()),
    rights: list(choice(RIGHT_NAMES), 'What its roles permit'),
    admin: flag('It has every right of the role admin. True for operators as well'),
    operator: flag('It has every right of the role operator'),
    via: text('Kind of credential'),
    key_id: nullable(text()),
    expires_at: nullable(instant('When the credential, or the session of a signed-in user, ends')),
    tools: list(text(), 'Globs of the tools that it may use'),
    toolset: nullable(text()),
    tier: record({
      name: nullable(text()),
      requests_per_minute: integer(),
      requests_per_hour: integer(),
      requests_per_day: integer(),
    }),
    version: text('Of the gateway'),
  }),
);
const CLIENT = nullable(record({ id: text(), name: nullable(text('As the client calls itself')) }), 'Null: a browser');
const SESSION = named(
  'Session',
  record({
    id: text(),
    tenant_id: text(),
    user_id: text(),
    roles: list(text()),
    groups: list(text(), 'Of the provider, as far as the configuration file names them'),
    client: CLIENT,
    created_at: instant(),
    expires_at: instant(),
    current: flag('The session of this request'),
  }),
);
/** A sign-in of a person. */
export type UserSession = Value<typeof SESSION>;

/** The caller and its rights. */
export type Me = Value<typeof ME>;

const KEY = {
  id: text(),
  tenant_id: text(),
  client: text(),
  user_id: text('For which it makes calls'),
  is_service_account: flag('The user is a service, not a person'),
  roles: list(text()),
  tools: list(text()),
  projects: list(text(), "Projects it may use; empty: its tenant's default project"),
  toolset: nullable(text(), 'Toolset that it is bound to: name, or name@version'),
  tier: nullable(text()),
  mcp_mode: nullable(
    choice(MCP_MODES),
    'What its MCP requests see: every tool, two to find and call tools, or three to write programs; null: as their URL says',
  ),
  note: nullable(text(), 'What it is for, in the words of those who manage it'),
  parent_id: nullable(text(), 'Id of the key that it was created with; null: its maker was signed in'),
  person: PERSON,
  created_by: text('User that created it'),
  created_at: instant(),
  expires_at: nullable(instant()),
  revoked_at: nullable(instant()),
  last_used_at: nullable(instant()),
};
export const API_KEY = named('ApiKey', record(KEY, 'An API key without its secret'));
/** An API key without its secret. */
export type ApiKey = Value<typeof API_KEY>;
/** Abilities of a key. */
const KEY_RIGHTS = {
  roles: maybe(list(text())),
  tools: maybe(list(text(), 'Globs')),
  projects: maybe(list(text(), "Project ids and globs; default: the tenant's default project")),
  toolset: maybe(text('Toolset to bind the key to: name, or name@version', { maxLength: 80 })),
  tier: maybe(text(undefined, { maxLength: 64 })),
  mcp_mode: maybe(
    choice(MCP_MODES, 'The tools that its MCP requests see; absent: as their URL or MCP_SURFACE chooses'),
  ),
};
const NOTE = { note: maybe(text('What it is for; shown in lists', { maxLength: 500 })) };
const CHANGED_KEY = closed({ ...KEY_RIGHTS, ...NOTE });
/** The rights of a key, and its note. */
export type KeyRights = Value<typeof CHANGED_KEY>;
const NEW_KEY = named(
  'NewKey',
  closed({
    client: text(undefined, { minLength: 1, maxLength: 64 }),
    tenant_id: maybe(
      text("Default: the caller's tenant; only operators may name another", { minLength: 1, maxLength: 64 }),
    ),
    user_id: maybe(
      text('Default: the caller; for operators the client. Another user needs the right mint_for_users', {
        minLength: 1,
        maxLength: 128,
      }),
    ),
    service_account: maybe(
      text('In place of a user: a service, as user `service:<name>`; needs the right manage_keys', {
        minLength: 1,
        maxLength: 64,
      }),
    ),
    ...KEY_RIGHTS,
    ...NOTE,
    expires_in_seconds: maybe(
      integer("Default: until revoked, or until the caller's credential expires", { minimum: 60 }),
    ),
  }),
);
/** An API key to create. */
export type NewKey = Value<typeof NEW_KEY>;

/** Who the caller is, how people sign in, and which keys and roles there are. */
export const CREDENTIAL_ROUTES = routes({ tag: 'keys' })({
  'GET /api/v1/me': {
    id: 'whoAmI',
    summary: 'The caller and its rights',
    answers: { 200: answer('The caller', ME) },
  },
  'GET /api/v1/sign-in': {
    id: 'getSignIn',
    access: 'public',
    summary: 'Whether people can sign in at an OpenID provider (`/auth/sign-in`)',
    answers: {
      200: answer('The sign-in', record({ available: flag(), name: nullable(text('Name of the provider')) })),
    },
  },
  'POST /api/v1/sign-out': {
    id: 'signOut',
    summary: 'Ends the session of a signed-in user; for other callers nothing happens',
    answers: {
      200: answer(
        'It has ended',
        record({ url: nullable(text('Page on which the browser ends its session at the provider')) }),
      ),
    },
  },
  'GET /api/v1/sessions': {
    id: 'listSessions',
    owner: 'identity',
    withoutSignIn: [],
    summary:
      'Sign-ins of people that are valid: of browsers, and of OAuth clients they connected. Your own; of the tenant with the right manage_keys',
    query: record({ tenant_id: maybe(text('Another tenant, with the right all_tenants', ID)) }),
    answers: { 200: answer('Newest first, up to 1,000', list(SESSION)) },
    errors: ['SERVICE_UNAVAILABLE'],
  },
  'DELETE /api/v1/sessions/{id}': {
    id: 'endSession',
    owner: 'identity',
    summary: 'Ends a sign-in within 5 s: your own, or with the right manage_keys one of the tenant',
    query: record({ tenant_id: maybe(text('Another tenant, with the right all_tenants', ID)) }),
    answers: { 204: empty('Ended') },
    errors: ['NOT_FOUND', 'SERVICE_UNAVAILABLE'],
  },
  'POST /api/v1/users/revoke': {
    id: 'revokeUser',
    access: 'manage_keys',
    summary:
      'Ends all access of a user within 5 s: sign-ins, MCP clients, keys that it made or that name it, and the keys made with these. Data stays',
    body: closed({
      user_id: text(undefined, ID),
      tenant_id: maybe(text('Another tenant, with the right all_tenants', ID)),
    }),
    example: { user_id: 'ada@example.com' },
    audit: ['user_id', 'tenant_id'],
    answers: {
      200: answer(
        'What ended',
        record({
          sessions: list(record({ id: text(), client: CLIENT }), 'Sign-ins, up to 1,000'),
          keys: list(record({ id: text(), client: text() })),
        }),
      ),
    },
    errors: ['SERVICE_UNAVAILABLE'],
  },
  'GET /api/v1/roles': {
    id: 'listRoles',
    access: 'manage_keys',
    summary: 'Roles that keys and signed-in users can have, with their rights',
    answers: { 200: answer('Built-in roles, the weakest first, then those of the configuration file', list(ROLE)) },
  },
  'GET /api/v1/keys': {
    id: 'listKeys',
    summary:
      'API keys without secrets: of the caller, with the right manage_keys of the tenant, for operators of all tenants. A key sees itself and those made with it',
    answers: { 200: answer('Keys', list(API_KEY)) },
  },
  'POST /api/v1/keys': {
    id: 'createKey',
    summary: 'Creates a key for the caller, or for a service account; its token is in this answer only',
    body: NEW_KEY,
    example: {
      client: 'support-bot',
      service_account: 'support-bot',
      tools: ['calculator', 'crm_*'],
      note: 'Answers tickets; ask team support',
      expires_in_seconds: 86_400,
    },
    audit: ['client', 'tenant_id', 'user_id', 'service_account', ...Object.keys(KEY_RIGHTS), 'expires_in_seconds'],
    answers: {
      201: answer(
        'The key with its token',
        record({
          ...KEY,
          token: text('The secret'),
          warnings: list(text(), 'Tools and the toolset of the request that its tenant does not have now'),
        }),
      ),
    },
    errors: ['QUOTA_EXCEEDED'],
  },
  'PUT /api/v1/keys/{id}': {
    id: 'changeKey',
    summary:
      'Replaces the rights of a key within 5 s; its secret stays. Absent members are as for a new key, but its tier and note stay',
    body: CHANGED_KEY,
    example: { tools: ['crm_*'], toolset: 'support' },
    audit: Object.keys(KEY_RIGHTS),
    answers: { 200: answer('The key', API_KEY) },
    errors: ['NOT_FOUND'],
  },
  'DELETE /api/v1/keys/{id}': {
    id: 'revokeKey',
    summary: 'Revokes a key within 5 s: one that `GET /api/v1/keys` lists',
    query: record({ children: maybe(flag('Revokes all keys created with it, directly or through others')) }),
    answers: {
      204: empty('Revoked'),
      200: answer('Ids of the revoked keys (with `children`)', record({ revoked: list(text()) })),
    },
  },
});
