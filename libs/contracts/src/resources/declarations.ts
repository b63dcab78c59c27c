import {
  closed,
  dictionary,
  flag,
  instant,
  integer,
  list,
  named,
  nullable,
  record,
  text,
  type Schema,
  type Value,
} from '../json-schema.js';
import type { Right } from '../roles.js';
import { answer, routes } from './route.js';

/** Kinds of resources that a declaration can own, by the first part of its id, with the right that changes it. */
export const DECLARED_KINDS = {
  mcp: 'manage_sources',
  openapi: 'manage_sources',
  toolsets: 'manage_toolsets',
  keys: 'manage_keys',
  budgets: 'manage_budgets',
  webhooks: 'manage_webhooks',
} as const satisfies Record<string, Right>;

const OWNED: Schema<Record<string, string>> = {
  ...dictionary(
    text(undefined, { maxLength: 200 }),
    'Ids such as toolsets/support@acme, each with a note of the client: the id of a webhook, a salted digest of secrets',
  ),
  maxProperties: 2_000,
  propertyNames: text(undefined, {
    pattern: `^(${Object.keys(DECLARED_KINDS).join('|')})/[\\x21-\\x7e]{1,400}$`,
    title: `a kind (${Object.keys(DECLARED_KINDS).join(', ')}), "/" and a name`,
  }),
};

const DECLARATION = named(
  'Declaration',
  record(
    {
      name: text(),
      revision: integer('Increases with every change; names the state that a change is based on'),
      owned: OWNED,
      changed_at: instant(),
      applying_until: nullable(instant('Until then another client must not begin to apply it')),
    },
    'What the files of one declaration own. The resources themselves are read and changed over their own routes',
  ),
);
/** Resources that the files of one declaration own. */
export type FleetDeclaration = Value<typeof DECLARATION>;

export const DECLARATION_ROUTES = routes({ tag: 'declarations' })({
  'GET /api/v1/declarations': {
    id: 'listDeclarations',
    summary: 'Declarations of the tenant, with the ids that the caller may change',
    answers: { 200: answer('By name', list(DECLARATION)) },
  },
  'PUT /api/v1/declarations/{name}': {
    id: 'putDeclaration',
    summary: 'Replaces what a declaration owns, unless it changed meanwhile; one that owns nothing is removed',
    path: { name: text(undefined, { pattern: '^[A-Za-z0-9_-]{1,64}$' }) },
    body: closed({
      revision: integer('The revision that was read; 0: there is none', { minimum: 0 }),
      owned: OWNED,
      applying: flag('True: the client begins to change resources, for up to 10 minutes. False: it has ended'),
    }),
    example: { revision: 0, owned: { 'toolsets/support@acme': '' }, applying: true },
    audit: ['revision', 'applying'],
    answers: { 200: answer('The declaration', DECLARATION) },
    errors: ['STATE_CONFLICT', 'QUOTA_EXCEEDED', 'SERVICE_UNAVAILABLE'],
  },
});
