import { Controller } from '@nestjs/common';
import { isToolError, ToolError, type EpochMs } from '@toolfleet/contracts';
import { SUBJECTS } from '@toolfleet/contracts/subjects';
import {
  WEBHOOK_CHANGE,
  WEBHOOK_CREATE,
  WEBHOOK_DELIVERIES,
  WEBHOOK_LIST,
  WEBHOOK_NAMED,
  WEBHOOK_ROTATE,
  WEBHOOK_SEND,
  type WebhookChange,
  type WebhookCreate,
  type WebhookDeliveries,
  type WebhookDeliveriesReply,
  type WebhookList,
  type WebhookListReply,
  type WebhookNamed,
  type WebhookReply,
  type WebhookRotate,
  type WebhookSecretReply,
  type WebhookSend,
  type WebhookSendReply,
} from '@toolfleet/contracts/webhooks';
import { EgressClient } from '@toolfleet/egress';
import { Clock } from '@toolfleet/resilience';
import { Endpoint } from '@toolfleet/transport';
import { CallStore } from './call-store.js';
import { orUnavailable } from './store-unavailable.js';
import { WebhookSender } from './webhook-sender.js';

/** `records.webhook.*`: endpoints of tenants. */
@Controller()
export class WebhookEndpoint {
  constructor(
    private readonly store: CallStore,
    private readonly sender: WebhookSender,
    private readonly egress: EgressClient,
    private readonly clock: Clock,
  ) {}

  @Endpoint(SUBJECTS.webhookList, { schema: WEBHOOK_LIST })
  async list({ tenant_id, id }: WebhookList): Promise<WebhookListReply> {
    const { webhooks } = this.store;
    return {
      webhooks: await orUnavailable(
        id === undefined ? webhooks.list(tenant_id) : webhooks.one({ tenant_id, id }).then((one) => [one]),
      ),
    };
  }

  @Endpoint(SUBJECTS.webhookCreate, { schema: WEBHOOK_CREATE })
  async create(sent: WebhookCreate): Promise<WebhookSecretReply> {
    this.#checkUrl(sent.url);
    return orUnavailable(this.store.webhooks.create(sent, this.#now));
  }

  @Endpoint(SUBJECTS.webhookChange, { schema: WEBHOOK_CHANGE })
  async change(sent: WebhookChange): Promise<WebhookReply> {
    if (sent.url !== undefined) this.#checkUrl(sent.url);
    const webhook = await orUnavailable(this.store.webhooks.change(sent));
    if (sent.on === true) await this.sender.renew(webhook.id);
    return { webhook };
  }

  @Endpoint(SUBJECTS.webhookRotate, { schema: WEBHOOK_ROTATE })
  rotate({ overlap_ms, ...named }: WebhookRotate): Promise<WebhookSecretReply> {
    return orUnavailable(this.store.webhooks.rotate(named, overlap_ms, this.#now));
  }

  @Endpoint(SUBJECTS.webhookRemove, { schema: WEBHOOK_NAMED })
  async remove(named: WebhookNamed): Promise<object> {
    await orUnavailable(this.store.webhooks.remove(named));
    return {};
  }

  @Endpoint(SUBJECTS.webhookDeliveries, { schema: WEBHOOK_DELIVERIES })
  async deliveries(query: WebhookDeliveries): Promise<WebhookDeliveriesReply> {
    await orUnavailable(this.store.webhooks.one(query));
    return orUnavailable(this.store.deliveries.list(query));
  }

  /** @throws ToolError REQUEST_INVALID: nothing is sent to an endpoint that is off; NOT_FOUND: the event is not in its log */
  @Endpoint(SUBJECTS.webhookSend, { schema: WEBHOOK_SEND })
  async send({ event_id, failed_since, ...named }: WebhookSend): Promise<WebhookSendReply> {
    const webhook = await orUnavailable(this.store.webhooks.one(named));
    if (webhook.state !== 'on')
      throw new ToolError('REQUEST_INVALID', {
        message: `Webhook '${webhook.id}' is ${webhook.state}; switch it on first: PUT /api/v1/webhooks/${webhook.id} {"on": true}`,
      });
    const reply = await orUnavailable(this.#queue(named, event_id, failed_since));
    this.sender.wake([webhook.id]);
    return reply;
  }

  async #queue(named: WebhookNamed, eventId?: string, failedSince?: EpochMs): Promise<WebhookSendReply> {
    const { deliveries } = this.store;
    if (eventId === undefined && failedSince === undefined)
      return { queued: 1, delivery: await deliveries.test(named, this.#now) };
    const which = eventId === undefined ? { failedSince: failedSince! } : { eventId };
    const queued = await deliveries.redeliver(named.id, which, this.#now);
    if (queued === 0 && eventId !== undefined)
      throw new ToolError('NOT_FOUND', {
        message: `No delivery of '${eventId}' to this webhook; see GET /api/v1/webhooks/${named.id}/deliveries`,
      });
    return { queued };
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

  get #now(): EpochMs {
    return this.clock.now();
  }
}
