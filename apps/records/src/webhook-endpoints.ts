import { randomBytes, randomUUID } from 'node:crypto';
import {
  invalidRequest,
  instantOrNull,
  toInstant,
  ToolError,
  type EpochMs,
  type Milliseconds,
} from '@toolfleet/contracts';
import { quotaExceeded } from '@toolfleet/contracts/account';
import type { Asked, NewWebhook, Webhook } from '@toolfleet/contracts/resources';
import { SecretBox } from '@toolfleet/service';
import type { Updateable } from 'kysely';
import { Webhook as Signer } from 'standardwebhooks';
import type { RecordsDb, RecordTables, RecordsRow } from './tables.js';

type EndpointRow = RecordsRow<'webhook_endpoint'>;

/** Bytes of a secret: Standard Webhooks asks for 24 to 64. */
const SECRET_BYTES = 32;
const MAX_ERROR_CHARS = 300;

/** An endpoint of a tenant. */
export interface EndpointName {
  tenant_id: string;
  id: string;
}

/** An endpoint as it is sent to. */
export interface Receiver {
  id: string;
  tenantId: string;
  url: string;
  /** When its last attempt failed, and all since then. */
  failingSince: EpochMs | undefined;
  /** Headers of an event: id, timestamp, and a signature by each secret that is valid. */
  sign(eventId: string, payload: string, now: EpochMs): Record<string, string>;
}

/** Endpoints of tenants that events are posted to. Secrets are stored sealed with `RECORDS_SECRET_KEY`. */
export class WebhookEndpoints {
  readonly #box: SecretBox | undefined;

  /** @param secretKey absent: no endpoint can be made */
  constructor(
    private readonly db: RecordsDb,
    secretKey: string | undefined,
    private readonly most: number,
  ) {
    this.#box = secretKey === undefined ? undefined : new SecretBox(secretKey);
  }

  /** @throws ToolError REQUEST_INVALID: the service has no key; QUOTA_EXCEEDED */
  async create(
    sent: NewWebhook & { tenant_id: string; created_by: string },
    now: EpochMs,
  ): Promise<{ webhook: Webhook; secret: string }> {
    const { secret, seal } = this.#newSecret();
    const id = `wh_${randomUUID().replaceAll('-', '').slice(0, 20)}`;
    const { tenant_id, url, description, kinds, tools = [], toolsets = [], created_by } = sent;
    const row = {
      ...{ endpoint_id: id, tenant_id, url, description, kinds, tools, toolsets },
      ...{ state: 'on' as const, secret: seal(id), created_at: now, created_by },
    };
    if ((await this.list(sent.tenant_id)).length >= this.most) throw quotaExceeded('webhooks', this.most);
    const stored = await this.db.insertInto('webhook_endpoint').values(row).returningAll().executeTakeFirstOrThrow();
    return { webhook: toWebhook(stored), secret };
  }

  /** Endpoints of a tenant, the oldest first. */
  async list(tenantId: string): Promise<Webhook[]> {
    const rows = await this.db
      .selectFrom('webhook_endpoint')
      .selectAll()
      .where('tenant_id', '=', tenantId)
      .orderBy('created_at')
      .orderBy('endpoint_id')
      .execute();
    return rows.map(toWebhook);
  }

  /** @throws ToolError NOT_FOUND */
  async one(named: EndpointName): Promise<Webhook> {
    return toWebhook(await this.#row(named));
  }

  /** Changes the members that are given. On again, an endpoint begins anew. @throws ToolError NOT_FOUND */
  async change(named: EndpointName, { on, ...sent }: Asked<'changeWebhook'>['body']): Promise<Webhook> {
    await this.#row(named);
    const { url, description, kinds, tools, toolsets } = sent;
    return this.#set(named.id, {
      ...{ endpoint_id: named.id, url, description, kinds, tools, toolsets },
      ...(on !== undefined && { state: on ? 'on' : 'off', reason: null }),
      ...(on === true && { failing_since: null, last_error: null }),
    });
  }

  /** A new secret. For `overlapMs`, events are signed with the one before as well. @throws ToolError as `create`, and NOT_FOUND */
  async rotate(
    named: EndpointName,
    overlapMs: Milliseconds,
    now: EpochMs,
  ): Promise<{ webhook: Webhook; secret: string }> {
    const { secret, seal } = this.#newSecret();
    const row = await this.#row(named);
    const webhook = await this.#set(named.id, {
      secret: seal(named.id),
      previous_secret: overlapMs > 0 ? row.secret : null,
      previous_until: overlapMs > 0 ? now + overlapMs : null,
    });
    return { webhook, secret };
  }

  async #set(id: string, changed: Updateable<RecordTables['webhook_endpoint']>): Promise<Webhook> {
    const update = this.db.updateTable('webhook_endpoint').where('endpoint_id', '=', id);
    return toWebhook(await update.set(changed).returningAll().executeTakeFirstOrThrow());
  }

  /** Removes an endpoint with its deliveries. @throws ToolError NOT_FOUND */
  async remove(named: EndpointName): Promise<void> {
    await this.#row(named);
    await this.db.transaction().execute(async (tx) => {
      await tx.deleteFrom('webhook_delivery').where('endpoint_id', '=', named.id).execute();
      await tx.deleteFrom('webhook_endpoint').where('endpoint_id', '=', named.id).execute();
    });
  }

  /** An endpoint to send to; undefined if it is not on. @throws Error when its secrets cannot be opened */
  async receiver(id: string): Promise<Receiver | undefined> {
    const row = await this.db
      .selectFrom('webhook_endpoint')
      .selectAll()
      .where('endpoint_id', '=', id)
      .where('state', '=', 'on')
      .executeTakeFirst();
    if (!row) return undefined;
    if (!this.#box) throw new Error('RECORDS_SECRET_KEY is not set, so no event can be signed');
    const open = (sealed: string): Signer => new Signer(this.#box!.open(sealed, context(id)));
    const current = open(row.secret);
    const previous = row.previous_secret === undefined ? undefined : open(row.previous_secret);
    const { previous_until: previousUntil = 0 } = row;
    return {
      id,
      tenantId: row.tenant_id,
      url: row.url,
      failingSince: row.failing_since,
      sign: (eventId, payload, now) => {
        const signers = previous && now < previousUntil ? [current, previous] : [current];
        const at = new Date(now);
        return {
          'webhook-id': eventId,
          'webhook-timestamp': String(Math.floor(now / 1_000)),
          'webhook-signature': signers.map((signer) => signer.sign(eventId, at, payload)).join(' '),
        };
      },
    };
  }

  /** Notes whether an endpoint takes events. */
  async noteHealth(id: string, failure: { error: string; since: EpochMs } | undefined): Promise<void> {
    await this.db
      .updateTable('webhook_endpoint')
      .set({ failing_since: failure?.since ?? null, last_error: failure?.error.slice(0, MAX_ERROR_CHARS) ?? null })
      .where('endpoint_id', '=', id)
      .execute();
  }

  /** Switches an endpoint off, with the reason. */
  async disable(id: string, state: 'off' | 'gone', reason: string): Promise<void> {
    await this.db
      .updateTable('webhook_endpoint')
      .set({ state, reason })
      .where('endpoint_id', '=', id)
      .where('state', '=', 'on')
      .execute();
  }

  async #row({ tenant_id, id }: EndpointName): Promise<EndpointRow> {
    const row = await this.db
      .selectFrom('webhook_endpoint')
      .selectAll()
      .where('endpoint_id', '=', id)
      .where('tenant_id', '=', tenant_id)
      .executeTakeFirst();
    if (!row) throw new ToolError('NOT_FOUND', { message: `No webhook '${id}'` });
    return row;
  }

  #newSecret(): { secret: string; seal: (id: string) => string } {
    const box = this.#box;
    if (!box)
      throw invalidRequest(
        'Webhooks are off: the service records has no RECORDS_SECRET_KEY to seal their secrets with; set it and restart the service',
      );
    const secret = `whsec_${randomBytes(SECRET_BYTES).toString('base64')}`;
    return { secret, seal: (id) => box.seal(secret, context(id)) };
  }
}

const context = (id: string): string => `secret of webhook/${id}`;

function toWebhook(row: EndpointRow): Webhook {
  const { tenant_id, url, description, kinds, tools, toolsets, state, reason, created_by } = row;
  return {
    id: row.endpoint_id,
    ...{ tenant_id, url, description, kinds, tools, toolsets, state, reason, created_by },
    failing_since: instantOrNull(row.failing_since),
    last_error: row.last_error ?? null,
    created_at: toInstant(row.created_at),
    previous_secret_until: instantOrNull(row.previous_until),
  };
}
