import { Controller } from '@nestjs/common';
import { ToolError, type Principal } from '@toolfleet/contracts';
import type { RouteInput } from '@toolfleet/contracts/resources';
import { SUBJECTS } from '@toolfleet/contracts/subjects';
import type {
  WebhookChange,
  WebhookCreate,
  WebhookDeliveries,
  WebhookDeliveriesReply,
  WebhookList,
  WebhookListReply,
  WebhookNamed,
  WebhookReply,
  WebhookRotate,
  WebhookSecretReply,
  WebhookSend,
  WebhookSendReply,
} from '@toolfleet/contracts/webhooks';
import { NatsClient } from '@toolfleet/transport';
import { Caller } from '../server/guards.js';
import { Input, Serves } from '../server/routes.js';
import { parseInstant } from './instants.js';

const ASK_TIMEOUT_MS = 10_000;
const HOUR_MS = 3_600_000;
const OVERLAP_HOURS = 24;
const PAGE = 50;

/** Endpoints of the caller's tenant that events are posted to (docs/webhooks.md). The service `records` has them and sends. */
@Controller()
export class WebhooksController {
  constructor(private readonly nats: NatsClient) {}

  @Serves('GET /api/v1/webhooks')
  async list(@Caller() { tenantId }: Principal) {
    const message: WebhookList = { tenant_id: tenantId };
    return (await this.#ask<WebhookListReply>(SUBJECTS.webhookList, message)).webhooks;
  }

  @Serves('POST /api/v1/webhooks')
  create(
    @Caller() { tenantId, userId }: Principal,
    @Input() { body }: RouteInput<'POST /api/v1/webhooks'>,
  ): Promise<WebhookSecretReply> {
    const message: WebhookCreate = { ...body, tenant_id: tenantId, created_by: userId };
    return this.#ask(SUBJECTS.webhookCreate, message);
  }

  @Serves('GET /api/v1/webhooks/{id}')
  async one(@Caller() caller: Principal, @Input() { path }: RouteInput<'GET /api/v1/webhooks/{id}'>) {
    const { webhooks } = await this.#ask<WebhookListReply>(SUBJECTS.webhookList, toNamed(caller, path));
    return webhooks[0]!;
  }

  @Serves('PUT /api/v1/webhooks/{id}')
  async change(@Caller() caller: Principal, @Input() { path, body }: RouteInput<'PUT /api/v1/webhooks/{id}'>) {
    const message: WebhookChange = { ...body, ...toNamed(caller, path) };
    return (await this.#ask<WebhookReply>(SUBJECTS.webhookChange, message)).webhook;
  }

  @Serves('DELETE /api/v1/webhooks/{id}')
  async remove(
    @Caller() caller: Principal,
    @Input() { path }: RouteInput<'DELETE /api/v1/webhooks/{id}'>,
  ): Promise<undefined> {
    await this.#ask(SUBJECTS.webhookRemove, toNamed(caller, path));
  }

  @Serves('POST /api/v1/webhooks/{id}/rotate')
  rotate(
    @Caller() caller: Principal,
    @Input() { path, body }: RouteInput<'POST /api/v1/webhooks/{id}/rotate'>,
  ): Promise<WebhookSecretReply> {
    const overlap_ms = (body.overlap_hours ?? OVERLAP_HOURS) * HOUR_MS;
    const message: WebhookRotate = { ...toNamed(caller, path), overlap_ms };
    return this.#ask(SUBJECTS.webhookRotate, message);
  }

  @Serves('POST /api/v1/webhooks/{id}/test')
  async test(@Caller() caller: Principal, @Input() { path }: RouteInput<'POST /api/v1/webhooks/{id}/test'>) {
    return (await this.#ask<WebhookSendReply>(SUBJECTS.webhookSend, toNamed(caller, path))).delivery!;
  }

  @Serves('GET /api/v1/webhooks/{id}/deliveries')
  deliveries(
    @Caller() caller: Principal,
    @Input() { path, query }: RouteInput<'GET /api/v1/webhooks/{id}/deliveries'>,
  ): Promise<WebhookDeliveriesReply> {
    const message: WebhookDeliveries = { limit: PAGE, ...query, ...toNamed(caller, path) };
    return this.#ask(SUBJECTS.webhookDeliveries, message);
  }

  @Serves('POST /api/v1/webhooks/{id}/redeliver')
  async redeliver(
    @Caller() caller: Principal,
    @Input() { path, body }: RouteInput<'POST /api/v1/webhooks/{id}/redeliver'>,
  ) {
    const { event_id, failed_since: since } = body;
    if ((event_id === undefined) === (since === undefined))
      throw new ToolError('REQUEST_INVALID', {
        message: 'Send event_id, or failed_since',
        details: { fields: ['event_id', 'failed_since'] },
      });
    const failed_since = since === undefined ? undefined : parseInstant(since);
    const message: WebhookSend = { ...toNamed(caller, path), event_id, failed_since };
    return { redelivered: (await this.#ask<WebhookSendReply>(SUBJECTS.webhookSend, message)).queued };
  }

  #ask<T>(subject: string, message: object): Promise<T> {
    return this.nats.request<T>(subject, message, { timeoutMs: ASK_TIMEOUT_MS });
  }
}

const toNamed = ({ tenantId }: Principal, { id }: { id: string }): WebhookNamed => ({ tenant_id: tenantId, id });
