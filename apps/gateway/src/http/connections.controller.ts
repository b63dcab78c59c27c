import { Controller, Req } from '@nestjs/common';
import { hasRight, isReturnUrl, refuseDelegated, requireRight, type ConnectLinks } from '@toolfleet/access';
import { ToolList } from '@toolfleet/catalog';
import { CATALOGUE, isToolError, ToolError, type Principal } from '@toolfleet/contracts';
import type { MessageOf, ReplyOf, Requested } from '@toolfleet/contracts/requests';
import type { Connection, RouteInput } from '@toolfleet/contracts/resources';
import { userAuthOf } from '@toolfleet/contracts/tool-definition';
import { sourceId, type UserAuth } from '@toolfleet/contracts/user-auth';
import { requireInPerson } from '@toolfleet/engine/access';
import { NatsClient } from '@toolfleet/transport';
import type { FastifyRequest } from 'fastify';
import { Caller } from '../server/guards.js';
import { publicBase, type PublicAddress } from '../server/public-origin.js';
import { Input, Serves } from '../server/routes.js';

/** `identity` asks an authorization server meanwhile. */
const SIGN_IN = { timeoutMs: 40_000 };

/** Dependencies of the routes of connections. */
export class ConnectionSettings {
  constructor(
    /** Whether the service `identity` runs (`GATEWAY_IDENTITY`). */
    readonly isOn: boolean,
    readonly address: PublicAddress,
    readonly links: ConnectLinks,
  ) {}
}

/**
 * Accounts of users at sources with tools that act as the calling user. The user comes from the credential. Credentials pass through to
 * `identity`; the gateway keeps and logs none.
 */
@Controller()
export class ConnectionsController {
  constructor(
    private readonly nats: NatsClient,
    private readonly list: ToolList,
    private readonly settings: ConnectionSettings,
  ) {}

  @Serves('GET /api/v1/connections')
  async all(
    @Caller() caller: Principal,
    @Input() { query }: RouteInput<'GET /api/v1/connections'>,
  ): Promise<Connection[]> {
    const user_id = userOf(caller, query.user_id);
    const [sources, { grants }] = await Promise.all([
      this.#sources(caller),
      this.#ask('identity.grant.list', { tenant_id: caller.tenantId, user_id }),
    ]);
    const bySource = new Map(grants.map((grant) => [grant.source, grant]));
    return [...sources].map(([source, { mode, help }]) => {
      const { reason, scopes, updated_at: at } = bySource.get(source) ?? {};
      return {
        source,
        mode,
        connected: at !== undefined && reason === undefined,
        reason,
        help,
        scopes,
        connected_at: at === undefined ? undefined : new Date(at).toISOString(),
      };
    });
  }

  @Serves('PUT /api/v1/connections/{kind}/{name}')
  async put(
    @Caller() caller: Principal,
    @Input() { path, body }: RouteInput<'PUT /api/v1/connections/{kind}/{name}'>,
  ): Promise<undefined> {
    const [source, auth] = await this.#source(caller, path);
    this.#checkLink(caller, source, body.link);
    await this.#ask('identity.grant.put', { ...ofUser(caller), source, auth, api_key: body.api_key });
  }

  @Serves('POST /api/v1/connections/{kind}/{name}/authorize')
  async authorize(
    @Caller() caller: Principal,
    @Input() { path, body }: RouteInput<'POST /api/v1/connections/{kind}/{name}/authorize'>,
    @Req() { raw }: FastifyRequest,
  ) {
    const [source, auth] = await this.#source(caller, path);
    if (!isReturnUrl(body.redirect_uri, publicBase(raw, this.settings.address), source))
      throw new ToolError('REQUEST_INVALID', {
        message: `redirect_uri must be <address of this gateway>/console/connected/${source} or http://127.0.0.1:<port>/connected/${source}`,
        details: { fields: ['redirect_uri'] },
      });
    this.#checkLink(caller, source, body.link);
    const begun = { ...ofUser(caller), source, auth, redirect_uri: body.redirect_uri };
    return this.#ask('identity.grant.authorize', begun, SIGN_IN);
  }

  /** The code passes through to `identity`; only it has the verifier. */
  @Serves('POST /api/v1/connections/finish')
  finish(@Caller() caller: Principal, @Input() { body }: RouteInput<'POST /api/v1/connections/finish'>) {
    return this.#ask('identity.grant.finish', { ...ofUser(caller), ...body }, SIGN_IN);
  }

  @Serves('DELETE /api/v1/connections/{kind}/{name}')
  async revoke(
    @Caller() caller: Principal,
    @Input() { path, query }: RouteInput<'DELETE /api/v1/connections/{kind}/{name}'>,
  ): Promise<undefined> {
    const user_id = userOf(caller, query.user_id);
    // Also of a source that is gone, or that its user no longer sees. A credential for some tools ends no other account than it can connect.
    const mayEndAny =
      hasRight(caller, 'manage_keys', caller.tenantId) || (caller.tools.includes('*') && !caller.toolset);
    const [source] = await this.#source(caller, path).catch((error: unknown) => {
      if (mayEndAny && isToolError(error) && error.code === 'NOT_FOUND') return [`${path.kind}/${path.name}`];
      throw error;
    });
    await this.#ask('identity.grant.revoke', { tenant_id: caller.tenantId, user_id, source });
  }

  /** Sources of the tools that the caller sees, with how their users connect. */
  async #sources(caller: Principal): Promise<Map<string, UserAuth>> {
    const tools = await this.list.originals(caller);
    const found = tools.flatMap(({ source, binding }) => {
      const auth = userAuthOf(binding);
      return auth ? [[sourceId(source), auth] as const] : [];
    });
    return new Map(found.toSorted(([a], [b]) => (a < b ? -1 : 1)));
  }

  /** @throws ToolError NOT_FOUND */
  async #source(caller: Principal, { kind, name }: { kind: string; name: string }): Promise<[string, UserAuth]> {
    const sources = await this.#sources(caller);
    for (const id of [`${kind}/${name}`, `${kind}/${name}@${caller.tenantId}`]) {
      const auth = sources.get(id);
      if (auth) return [id, auth];
    }
    throw new ToolError('NOT_FOUND', {
      message: `No source '${kind}/${name}' acts as its users; GET /api/v1/connections lists those that do`,
    });
  }

  #checkLink(caller: Principal, source: string, link: string | undefined): void {
    if (link !== undefined) this.settings.links.check(caller, source, link);
  }

  async #ask<S extends Requested>(subject: S, message: MessageOf<S>, options?: typeof SIGN_IN): Promise<ReplyOf<S>> {
    if (!this.settings.isOn)
      throw new ToolError('SERVICE_UNAVAILABLE', { message: 'The service identity is off; set GATEWAY_IDENTITY' });
    try {
      return await this.nats.ask(subject, message, options);
    } catch (error) {
      throw isToolError(error) ? asRefusal(error) : error;
    }
  }
}

/** Failures of calls as refusals of a request: mistakes of the operator, and temporary failures. */
function asRefusal(error: ToolError): ToolError {
  if (CATALOGUE[error.code].origin === 'request') return error;
  const code = error.code === 'AUTH_NOT_CONFIGURED' ? 'SOURCE_REFUSED' : 'SERVICE_UNAVAILABLE';
  return new ToolError(code, { message: error.message, cause: error });
}

const ofUser = (caller: Principal) => ({ tenant_id: caller.tenantId, user_id: userOf(caller) });

/**
 * The owner of the accounts.
 * @throws ToolError PERMISSION_DENIED for another one without the right, a key that someone else made for the user, no user, or a call
 */
function userOf(caller: Principal, named?: string): string {
  refuseDelegated(caller);
  if (named !== undefined && named !== caller.userId)
    requireRight(caller, 'manage_keys', `User ${named}`, caller.tenantId);
  else requireInPerson(caller);
  const user = named ?? caller.userId;
  if (user === '') throw new ToolError('PERMISSION_DENIED', { message: 'This credential names no user' });
  return user;
}
