import { Controller } from '@nestjs/common';
import { ToolError, type Principal } from '@toolfleet/contracts';
import type { RouteInput } from '@toolfleet/contracts/resources';
import { SUBJECTS } from '@toolfleet/contracts/subjects';
import { NatsClient } from '@toolfleet/transport';
import { Caller } from '../server/guards.js';
import { Input, Serves } from '../server/routes.js';
import { askService } from './ask-service.js';
import { parseInstant } from './instants.js';

const HOUR_MS = 3_600_000;
const OVERLAP_HOURS = 24;
const PAGE = 50;

/** Endpoints of the caller's tenant that events are posted to (docs/webhooks.md). The service `records` has them and sends. */
@Controller()
export class WebhooksController {
  constructor(private readonly nats: NatsClient) {}

  @Serves('GET /api/v1/webhooks')
  async list(@Caller() { tenantId }: Principal) {
    return (await askService(this.nats, SUBJECTS.webhookList, { tenant_id: tenantId })).webhooks;
  }

  @Serves('POST /api/v1/webhooks')
  create(@Caller() { tenantId, userId }: Principal, @Input() { body }: RouteInput<'POST /api/v1/webhooks'>) {
    return askService(this.nats, SUBJECTS.webhookCreate, { ...body, tenant_id: tenantId, created_by: userId });
  }

  @Serves('GET /api/v1/webhooks/{id}')
  async one(@Caller() caller: Principal, @Input() { path }: RouteInput<'GET /api/v1/webhooks/{id}'>) {
    return (await askService(this.nats, SUBJECTS.webhookList, toNamed(caller, path))).webhooks[0]!;
  }

  @Serves('PUT /api/v1/webhooks/{id}')
  async change(@Caller() caller: Principal, @Input() { path, body }: RouteInput<'PUT /api/v1/webhooks/{id}'>) {
    return (await askService(this.nats, SUBJECTS.webhookChange, { ...body, ...toNamed(caller, path) })).webhook;
  }

  @Serves('DELETE /api/v1/webhooks/{id}')
  async remove(
    @Caller() caller: Principal,
    @Input() { path }: RouteInput<'DELETE /api/v1/webhooks/{id}'>,
  ): Promise<undefined> {
    await askService(this.nats, SUBJECTS.webhookRemove, toNamed(caller, path));
  }

  @Serves('POST /api/v1/webhooks/{id}/rotate')
  rotate(@Caller() caller: Principal, @Input() { path, body }: RouteInput<'POST /api/v1/webhooks/{id}/rotate'>) {
    const overlap_ms = (body.overlap_hours ?? OVERLAP_HOURS) * HOUR_MS;
    return askService(this.nats, SUBJECTS.webhookRotate, { ...toNamed(caller, path), overlap_ms });
  }

  @Serves('POST /api/v1/webhooks/{id}/test')
  async test(@Caller() caller: Principal, @Input() { path }: RouteInput<'POST /api/v1/webhooks/{id}/test'>) {
    return (await askService(this.nats, SUBJECTS.webhookSend, toNamed(caller, path))).delivery!;
  }

  @Serves('GET /api/v1/webhooks/{id}/deliveries')
  deliveries(
    @Caller() caller: Principal,
    @Input() { path, query }: RouteInput<'GET /api/v1/webhooks/{id}/deliveries'>,
  ) {
    return askService(this.nats, SUBJECTS.webhookDeliveries, { limit: PAGE, ...query, ...toNamed(caller, path) });
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
    const message = { ...toNamed(caller, path), event_id, failed_since };
    return { redelivered: (await askService(this.nats, SUBJECTS.webhookSend, message)).queued };
  }
}

const toNamed = ({ tenantId }: Principal, { id }: { id: string }) => ({ tenant_id: tenantId, id });
