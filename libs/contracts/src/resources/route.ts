import type { ErrorCode } from '../errors/catalogue.js';
import type { Json } from '@toolfleet/base/json';
import type { Schema } from '../json-schema.js';
import type { Right } from '../roles.js';

/** Groups of routes in the API document. */
export const TAGS = {
  tools: 'Tools that the caller may use',
  calls: 'Calls of tools, one or many, now or in the background',
  approvals: 'Calls that wait for the decision of a person',
  results: 'Kept results and files',
  sources: 'Where tools come from: OpenAPI documents and MCP servers',
  toolsets: 'Selections of tools with names and texts of their own',
  keys: 'The caller, and API keys',
  connections: 'Accounts of users at sources whose tools act as them',
  usage: 'Usage, budgets and limits',
  tenants: 'Tenants of the fleet',
  webhooks: 'Endpoints that events are posted to',
  declarations: 'What files of declared fleets own',
  operations: 'The state of the fleet, and its data',
  shannon: "The endpoints of Shannon's tool service",
  service: 'The gateway itself',
} as const;

/**
 * Who may use a route: anyone; by default every authenticated caller; callers with a right; or `registrar`: callers with the right
 * `manage_sources` and the holder of the registration token.
 */
export type Access = 'public' | 'caller' | 'registrar' | Right;

/** A service that answers routes itself: see `Route.owner`. */
export type RouteOwner = 'budget' | 'identity' | 'records' | 'registry';

/** One successful answer of a route. `T` is its body. */
export interface Answer<out T = unknown> {
  description: string;
  /** Absent: no body. */
  schema?: Schema<T>;
  /** Media type of the body; default JSON. */
  type?: string;
  /** Media types of text that the query can choose instead. */
  textTypes?: readonly string[];
  example?: Json;
}

/**
 * One route of the HTTP API. Its key is method and path: `GET /api/v1/tools/{name}`. The gateway's readers and rights, the API
 * document and the types of clients are derived from it.
 */
export interface Route {
  /** Name of the operation in the API document. */
  id: string;
  tag: keyof typeof TAGS;
  /**
   * The service that answers. The gateway admits the caller, reads the request by this row, writes the audit line and asks the owner on
   * `api.<owner>.<id>`; the owner's method of this id answers (`@Answers`). Absent: a controller of the gateway answers (`@Serves`).
   */
  owner?: RouteOwner;
  /** The answer of a fleet without sign-in: it may run without the service `identity`. Absent: its owner is asked. */
  withoutSignIn?: unknown;
  /** Seconds that its owner has for an answer. Default 10. */
  seconds?: number;
  access?: Access;
  summary: string;
  /** Descriptions of members of the path that do not explain themselves, or their schemas. */
  path?: Readonly<Record<string, Schema<string>>>;
  /** Members of the query; all are optional. Without it, the query is not read. */
  query?: Schema;
  /** Headers that the route reads in addition to every request's; all are optional. */
  headers?: Schema;
  body?: Schema;
  /** The handler reads the body itself: the fields of calls have their own reader, and the registry reads registrations. */
  readsBody?: true;
  /** An example of the body. */
  example?: Json;
  /**
   * The audit log of a route. Each request that is not a GET has a line with its caller, the members of its path and query, and its
   * outcome; a list names the members of the body that the line shows as well: never secrets. `calls`: it makes, repeats or cancels
   * calls (they have lines themselves). `none`: it changes nothing. A GET has lines if it has a list.
   */
  audit?: readonly string[] | 'calls' | 'none';
  /** By status; the lowest is sent unless the handler chooses another. */
  answers: Readonly<Record<number, Answer>>;
  /** Refusals besides refusals by access, path, query and body. `call`: those of every step of a call. */
  errors?: readonly ErrorCode[] | 'call';
}

export type Routes = Readonly<Record<`${'GET' | 'POST' | 'PUT' | 'DELETE'} /${string}`, Route>>;

type Shared = Pick<Route, 'tag'> & Partial<Pick<Route, 'owner' | 'access' | 'errors'>>;
type Rows<C> = Readonly<Record<keyof Routes, Omit<Route, keyof C> & Partial<Pick<Route, keyof C & keyof Route>>>>;

/** Makes rows that share members, such as their tag and owner. A member of a row overrides a shared one. */
export const routes =
  <const C extends Shared>(shared: C) =>
  <const R extends Rows<C>>(rows: R) =>
    Object.fromEntries(Object.entries(rows).map(([key, row]) => [key, { ...shared, ...row }])) as {
      readonly [K in keyof R]: Omit<C, keyof R[K]> & R[K];
    };

/** A JSON answer. */
export const answer = <T>(description: string, schema: Schema<T>, example?: Json): Answer<T> =>
  example === undefined ? { description, schema } : { description, schema, example };

/** An answer without a body. */
export const empty = (description: string): Answer<undefined> => ({ description });

/** A stream of server-sent events. */
export const events = (description: string): Answer<unknown> => ({
  description,
  schema: { type: 'string' },
  type: 'text/event-stream',
});

/** A download; its type is the file's. */
export const file: Answer<unknown> = {
  description: 'The file; Content-Disposition has its name',
  schema: { type: 'string', format: 'binary' },
  type: '*/*',
};
