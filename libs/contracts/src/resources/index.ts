import type { Flat, Schema } from '../json-schema.js';
import { APPROVAL_GRANT_ROUTES, APPROVAL_ROUTES } from './approvals.js';
import { BODY_ROUTES } from './call-bodies.js';
import { CALL_ROUTES } from './calls.js';
import { CONNECTION_ROUTES } from './connections.js';
import { CREDENTIAL_ROUTES } from './credentials.js';
import { DECLARATION_ROUTES } from './declarations.js';
import { FINISHED_CALL_ROUTES } from './finished-calls.js';
import { OPERATION_ROUTES, SERVICE_ROUTES } from './operations.js';
import type { Principal } from '../principal.js';
import type { Answer, RouteOwner, Routes } from './route.js';
import { RULE_ROUTES } from './rules.js';
import { SHANNON_ROUTES } from './shannon.js';
import { QUARANTINE_ROUTES, SHANNON_SOURCE_ROUTES, SOURCE_ROUTES } from './sources.js';
import { TENANT_ROUTES } from './tenants.js';
import { TOOL_ROUTES } from './tools.js';
import { TOOLSET_ROUTES } from './toolsets.js';
import { USAGE_ROUTES } from './usage.js';
import { WEBHOOK_ROUTES } from './webhooks.js';

export { TAGS, type Access, type Answer, type Route, type RouteOwner } from './route.js';
export { APPROVAL_GRANT_ROUTES } from './approvals.js';
export { CONNECTION_ROUTES } from './connections.js';
export { CREDENTIAL_ROUTES } from './credentials.js';
export { DECLARED_KINDS } from './declarations.js';
export { RESULT_FORMATS } from './calls.js';
export { LIST_FORMATS, SCHEMA_STYLES } from './tools.js';
export { QUARANTINE_ROUTES, SHANNON_SOURCE_ROUTES, SOURCE_ROUTES } from './sources.js';
export { TOOLSET_ROUTES } from './toolsets.js';
export { USAGE_MEMBERS, USAGE_ROUTES } from './usage.js';
export { WEBHOOK_ROUTES } from './webhooks.js';
export type * from './approvals.js';
export type * from './call-bodies.js';
export type * from './calls.js';
export type * from './connections.js';
export type * from './credentials.js';
export type * from './declarations.js';
export type * from './finished-calls.js';
export type * from './operations.js';
export type * from './rules.js';
export type * from './sources.js';
export type * from './tools.js';
export type * from './toolsets.js';
export type * from './usage.js';
export type * from './webhooks.js';

/** Every route of the HTTP API, by method and path. */
export const ROUTES = {
  ...TOOL_ROUTES,
  ...CALL_ROUTES,
  ...SHANNON_ROUTES,
  ...BODY_ROUTES,
  ...APPROVAL_ROUTES,
  ...APPROVAL_GRANT_ROUTES,
  ...SOURCE_ROUTES,
  ...QUARANTINE_ROUTES,
  ...SHANNON_SOURCE_ROUTES,
  ...TOOLSET_ROUTES,
  ...CREDENTIAL_ROUTES,
  ...FINISHED_CALL_ROUTES,
  ...SERVICE_ROUTES,
  ...OPERATION_ROUTES,
  ...RULE_ROUTES,
  ...USAGE_ROUTES,
  ...TENANT_ROUTES,
  ...WEBHOOK_ROUTES,
  ...CONNECTION_ROUTES,
  ...DECLARATION_ROUTES,
} as const satisfies Routes;

type RouteTable = typeof ROUTES;
/** Method and path of a route, such as `GET /api/v1/tools/{name}`. */
export type RouteKey = keyof RouteTable;

type PathNames<P> = P extends `${string}{${infer Name}}${infer Rest}` ? Name | PathNames<Rest> : never;
type PathOf<K> = [PathNames<K>] extends [never] ? object : { path: Record<PathNames<K>, string> };
type RequestPart<K extends RouteKey, Name extends string> = RouteTable[K] extends { [N in Name]: Schema<infer T> }
  ? T
  : undefined;

/** The request of a client: the members of the path, the query and the body. */
export type RouteRequest<K extends RouteKey> = Flat<
  PathOf<K> &
    (RequestPart<K, 'query'> extends undefined ? object : { query?: RequestPart<K, 'query'> }) &
    (RequestPart<K, 'body'> extends undefined ? object : { body: RequestPart<K, 'body'> })
>;

/** Input of a handler of the gateway: the checked query and body. A body that the handler reads itself is unknown. */
export interface RouteInput<K extends RouteKey> {
  path: Record<PathNames<K>, string>;
  query: RequestPart<K, 'query'>;
  body: RouteTable[K] extends { readsBody: true } ? unknown : RequestPart<K, 'body'>;
}

/** The body of a successful answer; undefined where there is none. */
export type RouteAnswer<K extends RouteKey> = {
  [S in keyof RouteTable[K]['answers']]: RouteTable[K]['answers'][S] extends Answer<infer T> ? T : never;
}[keyof RouteTable[K]['answers']];

/** A route that another service than the gateway answers. */
export type OwnedKey = { [K in RouteKey]: RouteTable[K] extends { owner: RouteOwner } ? K : never }[RouteKey];
type OwnedId = RouteTable[OwnedKey]['id'];
type KeyOf<Id extends OwnedId> = { [K in OwnedKey]: RouteTable[K]['id'] extends Id ? K : never }[OwnedKey];

/** Request of the gateway to the owner of a route: the caller, and the request as the row reads it. JSON on `api.<owner>.<id>`. */
export interface RouteQuestion<K extends OwnedKey> extends RouteInput<K> {
  /** Undefined for the holder of the registration token, who acts for the fleet. */
  principal: RouteTable[K] extends { access: 'registrar' } ? Principal | undefined : Principal;
}
/** The question of a route by the id of its operation, as its owner's method takes it. */
export type Asked<Id extends OwnedId> = RouteQuestion<KeyOf<Id>>;

/** A class with a method for each route of a table that has an owner, by the id of the operation. */
export type Answering<R> = {
  [K in keyof R & OwnedKey as RouteTable[K]['id']]: (
    asked: RouteQuestion<K>,
    ...rest: never[]
  ) => Answered<K> | Promise<Answered<K>>;
};
type Answered<K extends RouteKey> = RouteAnswer<K> extends undefined ? void : RouteAnswer<K>;
