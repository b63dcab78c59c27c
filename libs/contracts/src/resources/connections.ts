import {
  choice,
  closed,
  flag,
  instant,
  integer,
  list,
  maybe,
  named,
  record,
  text,
  type Value,
} from '../json-schema.js';
import { USER_AUTH_MODES } from '../user-auth.js';
import { answer, empty, routes } from './route.js';

const CONNECTION = named(
  'Connection',
  record(
    {
      source: text('kind/name of the source, as in its path below /api/v1/connections'),
      mode: choice(
        USER_AUTH_MODES,
        'api_key: the user enters a personal key; connect: the user signs in at the authorization server; exchange, id_jag: the sign-in of the user counts',
      ),
      connected: flag('Calls act with a credential of the user'),
      reason: maybe(text('Why the credential can no longer be used')),
      help: maybe(text('Where users get a key')),
      scopes: maybe(list(text())),
      connected_at: maybe(instant()),
    },
    'An account of a user at a source whose tools act as the calling user',
  ),
);
export type Connection = Value<typeof CONNECTION>;

const SOURCE_PATH = { kind: choice(['mcp', 'openapi']), name: text('Name of the source') };
/** Sent by the connect page: it was opened by a link. */
const LINK = maybe(
  text('Mark of the link that the user opened; refused if it was made for another user or source, or altered', {
    maxLength: 1_000,
  }),
);
const OF_USER = record({ user_id: maybe(text('Another user of the tenant; needs the right manage_keys')) });

export const CONNECTION_ROUTES = routes({ tag: 'connections', errors: ['SERVICE_UNAVAILABLE'] })({
  'GET /api/v1/connections': {
    id: 'listConnections',
    summary: 'Sources whose tools act as the calling user, and whether the user has connected an account',
    query: OF_USER,
    answers: { 200: answer('By source', list(CONNECTION)) },
  },
  'PUT /api/v1/connections/{kind}/{name}': {
    id: 'putConnection',
    summary: "Stores the caller's personal key for a source in place of the one that was there",
    path: SOURCE_PATH,
    body: closed({ api_key: text(undefined, { minLength: 1, maxLength: 8_192 }), link: LINK }),
    example: { api_key: 'the key that the service gave you' },
    answers: { 204: empty('Stored; the next call acts with it') },
  },
  'POST /api/v1/connections/{kind}/{name}/authorize': {
    id: 'authorizeConnection',
    summary: 'Begins the sign-in of the caller at the authorization server of a source',
    path: SOURCE_PATH,
    body: closed({
      redirect_uri: text(
        'Where the browser comes back: /console/connected/<source> of the gateway, or /connected/<source> at a loopback port of the caller (RFC 8252 section 7.3), with the source as it is listed',
        { maxLength: 2_000 },
      ),
      link: LINK,
    }),
    example: { redirect_uri: 'http://127.0.0.1:33418/connected/mcp/mail' },
    answers: { 200: answer('Open the address in a browser', record({ authorization_url: text() })) },
    errors: ['SERVICE_UNAVAILABLE', 'SOURCE_REFUSED'],
  },
  'POST /api/v1/connections/finish': {
    id: 'finishConnection',
    summary: 'Ends the sign-in that the same caller has begun: stores what the authorization server grants',
    body: closed({
      redirect: text('The query with which the browser came back', { minLength: 1, maxLength: 16_384 }),
      redirect_uri: text('The address to which it came back, without the query', { minLength: 1, maxLength: 2_000 }),
    }),
    example: {
      redirect: 'code=abc&state=xyz&iss=https%3A%2F%2Flogin.example.com',
      redirect_uri: 'http://127.0.0.1:33418/connected/mcp/mail',
    },
    answers: { 200: answer('Connected', record({ source: text() })) },
    errors: ['SERVICE_UNAVAILABLE', 'SOURCE_REFUSED'],
  },
  'DELETE /api/v1/connections/{kind}/{name}': {
    id: 'revokeConnection',
    summary: 'Deletes the credential of the caller, or of another user of the tenant, for a source',
    path: SOURCE_PATH,
    query: OF_USER,
    answers: { 204: empty('Deleted, or there was none') },
  },
  'POST /api/v1/connections/reseal': {
    id: 'resealConnections',
    owner: 'identity',
    seconds: 40,
    access: 'operate_fleet',
    summary:
      'Seals what identity stores with the first of its keys again, for some seconds; repeat it until nothing is left',
    answers: {
      200: answer(
        'What is sealed now',
        record({ resealed: integer(), left: integer('Values that other keys seal; 0: these keys can be removed') }),
      ),
    },
  },
});
