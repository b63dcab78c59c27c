import {
  type JsonObject,
  type NewKey,
  type NewWebhook,
  type QuarantinedTool,
  type RouteRequest,
  ToolfleetClient,
  type ToolsetSpec,
} from '@toolfleet/client';
import { toPlace } from '../views/source-registration.js';

const CALL_TIMEOUT_MS = 125_000;
/** The registry reads a document or asks a server. */
const REGISTER_TIMEOUT_MS = 65_000;

/** A grant that a decider gives with the approval. */
export type WantedGrant = NonNullable<RouteRequest<'POST /api/v1/approvals/{id}/approve'>['body']['grant']>;

/** Filters, page and sums of finished calls. */
export type CallQuery = NonNullable<RouteRequest<'GET /api/v1/calls'>['query']>;

/** Remaining requests of the key's own limits, from the last response. */
interface KeyAllowance {
  leftMinute: number;
  leftHour: number;
}

/**
 * Requests to the gateway that served this page, with a key, or without one in the session of the signed-in user. Every method rejects
 * with `ToolCallError` when the request is refused or the gateway is unreachable. `onRefusedKey` is called when the key or session
 * itself is rejected (401).
 */
export class ConsoleApi {
  /** Undefined until a response carried it. */
  allowance: KeyAllowance | undefined;
  readonly #client: ToolfleetClient;

  constructor(key: string | undefined, onRefusedKey: () => void = () => undefined) {
    const credentials = key === undefined ? 'same-origin' : 'omit';
    this.#client = new ToolfleetClient({
      url: '',
      ...(key === undefined ? {} : { apiKey: key }),
      fetch: async (input, init) => {
        const headers = new Headers(init?.headers);
        // The gateway takes a session cookie only with this header; no other site can send it.
        if (key === undefined) headers.set('x-toolfleet-session', '1');
        const response = await fetch(input, { ...init, headers, cache: 'no-store', credentials, redirect: 'error' });
        this.#noteAllowance(response.headers);
        if (response.status === 401) onRefusedKey();
        return response;
      },
    });
  }

  signIn = () => this.#client.request('GET /api/v1/sign-in', {});
  signOut = () => this.#client.request('POST /api/v1/sign-out', {});
  me = (signal?: AbortSignal) => this.#client.request('GET /api/v1/me', { signal });
  tools = (signal?: AbortSignal) => this.#client.request('GET /api/v1/catalog', { signal });
  tool = (name: string, signal?: AbortSignal) =>
    this.#client.request('GET /api/v1/catalog/{name}', { path: { name }, signal });
  fleet = (signal?: AbortSignal) => this.#client.request('GET /api/v1/fleet', { signal });
  quarantine = (signal?: AbortSignal) => this.#client.request('GET /api/v1/quarantine', { signal });
  sources = (signal?: AbortSignal) => this.#client.request('GET /api/v1/sources', { signal });
  /** One source with its tools, refusals, and notes. */
  source = (id: string, signal?: AbortSignal) =>
    this.#client.request('GET /api/v1/sources/{kind}/{name}', { ...ofSource(id), signal });
  /** Looks at a source now. A look that failed is in the answer. */
  refreshSource = (id: string) =>
    this.#client.request('POST /api/v1/sources/{kind}/{name}/refresh', {
      ...ofSource(id),
      timeoutMs: REGISTER_TIMEOUT_MS,
    });
  /** Inspects a URL or the text of a document. Registers nothing. */
  inspectSource = (place: string) =>
    this.#client.request('POST /api/v1/sources/inspect', { body: toPlace(place), timeoutMs: REGISTER_TIMEOUT_MS });
  /** Lets the fleet that `npm start` runs connect to origins. */
  allowOrigins = (origins: string[]) => this.#client.request('POST /api/v1/sources/allow', { body: { origins } });
  registerSource = (kind: 'openapi' | 'mcp', body: JsonObject) =>
    this.#client.request(`POST /api/v1/sources/${kind}`, { body, timeoutMs: REGISTER_TIMEOUT_MS });
  removeSource = (id: string) => this.#client.request('DELETE /api/v1/sources/{kind}/{name}', ofSource(id));
  toolsets = (signal?: AbortSignal) => this.#client.request('GET /api/v1/toolsets', { signal });
  /** One toolset with its tools, in a version or the latest. */
  toolset = (id: string, version?: string, signal?: AbortSignal) => {
    const { path, query } = ofToolset(id);
    const number = version === undefined ? undefined : Number(version);
    return this.#client.request('GET /api/v1/toolsets/{name}', { path, query: { ...query, version: number }, signal });
  };
  /** Makes a new version. `id` is `name@tenant`, or the `name` of a shared toolset. */
  putToolset = (id: string, body: ToolsetSpec) =>
    this.#client.request('PUT /api/v1/toolsets/{name}', { ...ofToolset(id), body });
  rollbackToolset = (id: string, version: number) =>
    this.#client.request('POST /api/v1/toolsets/{name}/rollback', { ...ofToolset(id), body: { version } });
  approveOverride = (id: string, tool: string, revision: string) =>
    this.#client.request('POST /api/v1/toolsets/{name}/approve', {
      ...ofToolset(id),
      body: { tool, pending_revision: revision },
    });
  removeToolset = (id: string) => this.#client.request('DELETE /api/v1/toolsets/{name}', ofToolset(id));
  roles = (signal?: AbortSignal) => this.#client.request('GET /api/v1/roles', { signal });
  sessions = (signal?: AbortSignal) => this.#client.request('GET /api/v1/sessions', { signal });
  endSession = (id: string) => this.#client.request('DELETE /api/v1/sessions/{id}', { path: { id } });
  /** Accounts of the caller, or of another user of the tenant, at sources with tools that act as their users. */
  connections = (user_id?: string, signal?: AbortSignal) =>
    this.#client.request('GET /api/v1/connections', { query: { user_id }, signal });
  putConnection = (id: string, api_key: string, link?: string) =>
    this.#client.request('PUT /api/v1/connections/{kind}/{name}', { ...ofConnection(id), body: { api_key, link } });
  /** Begins a sign-in. @param link mark of the link that the user opened */
  authorizeConnection = (id: string, redirect_uri: string, link?: string) =>
    this.#client.request('POST /api/v1/connections/{kind}/{name}/authorize', {
      ...ofConnection(id),
      body: { redirect_uri, link },
      timeoutMs: REGISTER_TIMEOUT_MS,
    });
  /** Ends it with the query with which the browser came back, and where. */
  finishConnection = (body: { redirect: string; redirect_uri: string }) =>
    this.#client.request('POST /api/v1/connections/finish', { body, timeoutMs: REGISTER_TIMEOUT_MS });
  disconnect = (id: string, user_id?: string) =>
    this.#client.request('DELETE /api/v1/connections/{kind}/{name}', { ...ofConnection(id), query: { user_id } });
  webhooks = (signal?: AbortSignal) => this.#client.request('GET /api/v1/webhooks', { signal });
  createWebhook = (body: NewWebhook) => this.#client.request('POST /api/v1/webhooks', { body });
  switchWebhook = (id: string, on: boolean) =>
    this.#client.request('PUT /api/v1/webhooks/{id}', { path: { id }, body: { on } });
  removeWebhook = (id: string) => this.#client.request('DELETE /api/v1/webhooks/{id}', { path: { id } });
  testWebhook = (id: string) => this.#client.request('POST /api/v1/webhooks/{id}/test', { path: { id } });
  /** One page of deliveries to an endpoint, newest first. */
  deliveries = (id: string, before?: string, signal?: AbortSignal) =>
    this.#client.request('GET /api/v1/webhooks/{id}/deliveries', { path: { id }, query: { before }, signal });
  redeliver = (id: string, event_id: string) =>
    this.#client.request('POST /api/v1/webhooks/{id}/redeliver', { path: { id }, body: { event_id } });
  keys = (signal?: AbortSignal) => this.#client.request('GET /api/v1/keys', { signal });
  /** One page of the finished calls that match, oldest first. */
  finishedCalls = (query: CallQuery, signal?: AbortSignal) =>
    this.#client.request('GET /api/v1/calls', { query, signal });
  finishedCall = (id: string, signal?: AbortSignal) =>
    this.#client.request('GET /api/v1/calls/{id}/record', { path: { id }, signal });
  /** Arguments and result of a finished call. The reading of another caller's is recorded. */
  callBody = async (id: string, signal?: AbortSignal) =>
    (await this.#client.request('GET /api/v1/calls/{id}/body', { path: { id }, signal })).body;
  /** Calls that wait for a decision, the newest first. */
  waitingCalls = async (signal?: AbortSignal) =>
    (await this.#client.request('GET /api/v1/approvals', { query: { state: 'pending' }, signal })).approvals;
  /** One of them with its arguments. Reading another caller's is logged. */
  waitingCall = (id: string, signal?: AbortSignal) =>
    this.#client.request('GET /api/v1/approvals/{id}', { path: { id }, signal });
  decideCall = (id: string, decision: 'approve' | 'reject', { note, grant }: { note: string; grant?: WantedGrant }) =>
    this.#client.request(`POST /api/v1/approvals/{id}/${decision}`, {
      path: { id },
      body: { ...(note !== '' && { note }), ...(grant && { grant }) },
    });
  /** Grants that let calls run without a question, the newest first. */
  approvalGrants = async (signal?: AbortSignal) =>
    (await this.#client.request('GET /api/v1/approval-grants', { signal })).grants;
  /** One of them with the arguments of its calls. The look is logged. */
  approvalGrant = (id: string, signal?: AbortSignal) =>
    this.#client.request('GET /api/v1/approval-grants/{id}', { path: { id }, signal });
  revokeGrant = (id: string) => this.#client.request('DELETE /api/v1/approval-grants/{id}', { path: { id } });
  breakers = async (signal?: AbortSignal) => (await this.#client.request('GET /api/v1/breakers', { signal })).breakers;
  limits = async (signal?: AbortSignal) => (await this.#client.request('GET /api/v1/limits', { signal })).tools;
  budgets = async (signal?: AbortSignal) => (await this.#client.request('GET /api/v1/budgets', { signal })).budgets;
  setBudget = (body: RouteRequest<'PUT /api/v1/budgets'>['body']) =>
    this.#client.request('PUT /api/v1/budgets', { body });
  removeBudget = (query: RouteRequest<'DELETE /api/v1/budgets'>['query']) =>
    this.#client.request('DELETE /api/v1/budgets', { query });
  tenants = (signal?: AbortSignal) => this.#client.request('GET /api/v1/tenants', { signal });
  tenant = (id: string, signal?: AbortSignal) =>
    this.#client.request('GET /api/v1/tenants/{id}', { path: { id }, signal });
  /** Cost of this month, so far and at its end, by tool. */
  forecast = (signal?: AbortSignal) => this.#client.request('GET /api/v1/usage/forecast', { signal });
  /** Usage per day and tool, from and to the days (`2026-01-31`) inclusive. */
  usage = async (from: string, to: string, signal?: AbortSignal) =>
    (await this.#client.request('GET /api/v1/usage', { query: { group_by: 'day,tool', from, to }, signal })).rows;

  /** Runs a tool. Aborting closes the request and cancels the call. */
  call = (name: string, body: RouteRequest<'POST /api/v1/tools/{name}/execute'>['body'], signal?: AbortSignal) =>
    this.#client.request('POST /api/v1/tools/{name}/execute', {
      path: { name },
      body,
      signal,
      timeoutMs: CALL_TIMEOUT_MS,
    });
  /** A call that the fleet keeps. @param isRead also with the result of another caller's; the reading is recorded */
  asyncCall = (id: string, signal?: AbortSignal, isRead = false) =>
    this.#client.request('GET /api/v1/calls/{id}', {
      path: { id },
      query: isRead ? undefined : { content: 'own' },
      signal,
    });
  cancelCall = (id: string) => this.#client.cancel(id);
  /** Events of a call until it has ended. */
  callEvents = (id: string, signal: AbortSignal) =>
    this.#client.events('GET /api/v1/calls/{id}/events', { path: { id }, query: { content: 'own' }, signal });
  /** Finished calls after a cursor, as they end. */
  finishedCallEvents = (signal: AbortSignal, lastId?: string) =>
    this.#client.events('GET /api/v1/calls/events', { signal, lastId });

  /** Approves or rejects the revision that was shown. */
  decide = (tool: QuarantinedTool, decision: 'approve' | 'reject') =>
    this.#client.request(`POST /api/v1/quarantine/{name}/${decision}`, {
      path: { name: tool.name },
      body: { pending_revision: tool.pending_revision },
    });

  /** Runs the last calls of a tool without effects against the revision that was shown. */
  tryPending = ({ name, pending_revision }: QuarantinedTool) =>
    this.#client.request('POST /api/v1/quarantine/{name}/replay', {
      path: { name },
      body: { pending_revision },
      timeoutMs: CALL_TIMEOUT_MS,
    });
  /** The effect of a rule on recorded calls. */
  testRule = (body: RouteRequest<'POST /api/v1/rules/test'>['body']) =>
    this.#client.request('POST /api/v1/rules/test', { body, timeoutMs: CALL_TIMEOUT_MS });

  createKey = (body: NewKey) => this.#client.request('POST /api/v1/keys', { body });
  revokeKey = (id: string) => this.#client.request('DELETE /api/v1/keys/{id}', { path: { id } });

  #noteAllowance(headers: Headers): void {
    const [leftMinute, leftHour] = ['minute', 'hour'].map((window) => headers.get(`x-ratelimit-remaining-${window}`));
    if (leftMinute && leftHour) this.allowance = { leftMinute: Number(leftMinute), leftHour: Number(leftHour) };
  }
}

/** The path of a source by its id: `mcp/crm@acme`, or `mcp/crm` for one that is shared with all tenants. */
export function ofSource(id: string): RouteRequest<'GET /api/v1/sources/{kind}/{name}'> {
  const [kind = '', ...rest] = id.split('/');
  const name = rest.join('/');
  return { path: { kind, name }, query: ownerOf(name) };
}

/** The path of a connection by the id of its source. */
const ofConnection = (id: string) => ({ path: ofSource(id).path });

/** The path of a toolset by its id: `support@acme`, or `support` for one that is shared with all tenants. */
const ofToolset = (id: string) => ({ path: { name: id }, query: ownerOf(id) });

const ownerOf = (id: string): { visibility?: 'fleet' } => (id.includes('@') ? {} : { visibility: 'fleet' });
