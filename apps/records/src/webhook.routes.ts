import { invalidRequest, isToolError, parseInstant, ToolError, type Principal } from '@toolfleet/contracts';
import { WEBHOOK_ROUTES, type Asked, type Webhook } from '@toolfleet/contracts/resources';
import { EgressClient } from '@toolfleet/egress';
import { Clock } from '@toolfleet/resilience';
import { Answers } from '@toolfleet/transport';
import { RecordedCallStore, STORE_UNAVAILABLE } from './call-store.js';
import type { EndpointName } from './webhook-endpoints.js';
import { WebhookSender } from './webhook-sender.js';

const HOUR_MS = 3_600_000;
const OVERLAP_HOURS = 24;
const PAGE = 50;

/** Endpoints of the caller's tenant that events are posted to (docs/webhooks.md). */
@Answers(WEBHOOK_ROUTES, { unavailable: STORE_UNAVAILABLE })
export class WebhookRoutes {
  constructor(
    private readonly store: RecordedCallStore,
    private readonly sender: WebhookSender,
    private readonly egress: EgressClient,
    private readonly clock: Clock,
  ) {}

  listWebhooks({ principal }: Asked<'listWebhooks'>) {
    return this.store.webhooks.list(principal.tenantId);
  }

  createWebhook({ principal: { tenantId, userId }, body }: Asked<'createWebhook'>) {
    this.#checkUrl(body.url);
    return this.store.webhooks.create({ ...body, tenant_id: tenantId, created_by: userId }, this.clock.now());
  }

  getWebhook(asked: Asked<'getWebhook'>) {
    return this.store.webhooks.one(named(asked));
  }

  async changeWebhook({ body, ...asked }: Asked<'changeWebhook'>) {
    if (body.url !== undefined) this.#checkUrl(body.url);
    const webhook = await this.store.webhooks.change(named(asked), body);
    if (body.on === true) await this.sender.renew(webhook.id);
    return webhook;
  }

  removeWebhook(asked: Asked<'removeWebhook'>) {
    return this.store.webhooks.remove(named(asked));
  }

  rotateWebhookSecret({ body: { overlap_hours: hours = OVERLAP_HOURS }, ...asked }: Asked<'rotateWebhookSecret'>) {
    return this.store.webhooks.rotate(named(asked), hours * HOUR_MS, this.clock.now());
  }

  async testWebhook(asked: Asked<'testWebhook'>) {
    const { id, tenant_id } = await this.#sendable(named(asked));
    const delivery = await this.store.deliveries.test({ id, tenant_id }, this.clock.now());
    this.sender.wake([id]);
    return delivery;
  }

  async listWebhookDeliveries({ query, ...asked }: Asked<'listWebhookDeliveries'>) {
    const { id } = await this.store.webhooks.one(named(asked));
    return this.store.deliveries.list(id, { limit: PAGE, ...query });
  }

  /** @throws ToolError NOT_FOUND: the event is not in the log of the endpoint */
  async redeliverWebhook({ body, ...asked }: Asked<'redeliverWebhook'>) {
    const which = readRedelivery(body);
    const { id } = await this.#sendable(named(asked));
    const redelivered = await this.store.deliveries.redeliver(id, which, this.clock.now());
    if (redelivered === 0 && 'eventId' in which)
      throw new ToolError('NOT_FOUND', {
        message: `No delivery of '${which.eventId}' to this webhook`,
      });
    this.sender.wake([id]);
    return { redelivered };
  }

  /** @throws ToolError REQUEST_INVALID: nothing is sent to an endpoint that is off */
  async #sendable(name: EndpointName): Promise<Webhook> {
    const webhook = await this.store.webhooks.one(name);
    if (webhook.state === 'on') return webhook;
    throw invalidRequest(
      `Webhook '${webhook.id}' is ${webhook.state}; switch it on first: PUT /api/v1/webhooks/${webhook.id} {"on": true}`,
    );
  }

  /** @throws ToolError REQUEST_INVALID: the egress guard lets no event pass to the address */
  #checkUrl(url: string): void {
    try {
      this.egress.check(url);
    } catch (cause) {
      if (!isToolError(cause)) throw cause;
      throw new ToolError('REQUEST_INVALID', {
        message: `url: ${cause.message}; hosts are those of WEBHOOK_ALLOWED_DOMAINS of the service records`,
        details: { fields: ['url'] },
        cause,
      });
    }
  }
}

const named = ({ principal, path }: { principal: Principal; path: { id: string } }): EndpointName => ({
  tenant_id: principal.tenantId,
  id: path.id,
});

function readRedelivery({ event_id, failed_since }: Asked<'redeliverWebhook'>['body']) {
  if (event_id !== undefined && failed_since === undefined) return { eventId: event_id };
  if (event_id === undefined && failed_since !== undefined) return { failedSince: parseInstant(failed_since) };
  throw invalidRequest('Send event_id, or failed_since', 'event_id', 'failed_since');
}
