import { randomBytes, randomUUID } from 'node:crypto';
import { ToolError, type EpochMs, type Milliseconds } from '@toolfleet/contracts';
import { quotaExceeded } from '@toolfleet/contracts/account';
import type { EventKind } from '@toolfleet/contracts/events';
import type { Webhook } from '@toolfleet/contracts/resources';
import type { WebhookChange, WebhookCreate, WebhookNamed } from '@toolfleet/contracts/webhooks';
import { SecretBox } from '@toolfleet/service';
import type { Kysely, Selectable } from 'kysely';
import { Webhook as Signer } from 'standardwebhooks';
import type { WebhookTables } from './webhook-tables.js';

type EndpointRow = Selectable<WebhookTables['webhook_endpoint']>;

/** Bytes of a secret: Standard Webhooks asks for 24 to 64. */
const SECRET_BYTES = 32;
const MAX_ERROR_CHARS = 300;

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
  readonly #db: Kysely<WebhookTables>;
  readonly #box: SecretBox | undefined;

  /** @param secretKey absent: no endpoint can be made */
  constructor(
    db: Kysely<never>,
    secretKey: string | undefined,
    private readonly most: number,
  ) {
    this.#db = db as unknown as Kysely<WebhookTables>;
    this.#box = secretKey === undefined ? undefined : new SecretBox(secretKey);
  }

  /** @throws ToolError REQUEST_INVALID: the service has no key; QUOTA_EXCEEDED */
  async create(sent: WebhookCreate, now: EpochMs): Promise<{ webhook: Webhook; secret: string }> {
    const { secret, seal } = this.#newSecret();
    const id = `wh_${randomUUID().replaceAll('-', '').slice(0, 20)}`;
    const row: EndpointRow = {
      endpoint_id: id,
      tenant_id: sent.tenant_id,
      url: sent.url,
      description: sent.description ?? null,
      kinds: JSON.stringify(sent.kinds),
      tools: JSON.stringify(sent.tools ?? []),
      toolsets: JSON.stringify(sent.toolsets ?? []),
      state: 'on',
      reason: null,
      failing_since: null,
      last_error: null,
      secret: seal(id),
      previous_secret: null,
      previous_until: null,
      created_at: now,
      created_by: sent.created_by,
    };
    if ((await this.list(sent.tenant_id)).length >= this.most) throw quotaExceeded('webhooks', this.most);
    await this.#db.insertInto('webhook_endpoint').values(row).execute();
    return { webhook: toWebhook(row), secret };
  }

  /** Endpoints of a tenant, the oldest first. */
  async list(tenantId: string): Promise<Webhook[]> {
    const rows = await this.#db
      .selectFrom('webhook_endpoint')
      .selectAll()
      .where('tenant_id', '=', tenantId)
      .orderBy('created_at')
      .orderBy('endpoint_id')
      .execute();
    return rows.map(toWebhook);
  }

  /** @throws ToolError NOT_FOUND */
  async one(named: WebhookNamed): Promise<Webhook> {
    return toWebhook(await this.#row(named));
  }

  /** Changes the members that are given. On again, an endpoint begins anew. @throws ToolError NOT_FOUND */
  async change({ tenant_id, id, on, ...sent }: WebhookChange): Promise<Webhook> {
    const row = await this.#row({ tenant_id, id });
    const lists = Object.fromEntries(
      (['kinds', 'tools', 'toolsets'] as const).flatMap((name) =>
        sent[name] === undefined ? [] : [[name, JSON.stringify(sent[name])]],
      ),
    );
    const changed: EndpointRow = {
      ...row,
      ...lists,
      url: sent.url ?? row.url,
      description: sent.description ?? row.description,
      ...(on !== undefined && { state: on ? 'on' : 'off', reason: null }),
      ...(on === true && { failing_since: null, last_error: null }),
    };
    await this.#db.updateTable('webhook_endpoint').set(changed).where('endpoint_id', '=', id).execute();
    return toWebhook(changed);
  }

  /** A new secret. For `overlapMs`, events are signed with the one before as well. @throws ToolError as `create`, and NOT_FOUND */
  async rotate(
    named: WebhookNamed,
    overlapMs: Milliseconds,
    now: EpochMs,
  ): Promise<{ webhook: Webhook; secret: string }> {
    const { secret, seal } = this.#newSecret();
    const row = await this.#row(named);
    const changed = {
      secret: seal(named.id),
      previous_secret: overlapMs > 0 ? row.secret : null,
      previous_until: overlapMs > 0 ? now + overlapMs : null,
    };
    await this.#db.updateTable('webhook_endpoint').set(changed).where('endpoint_id', '=', named.id).execute();
    return { webhook: toWebhook({ ...row, ...changed }), secret };
  }

  /** Removes an endpoint with its deliveries. @throws ToolError NOT_FOUND */
  async remove(named: WebhookNamed): Promise<void> {
    await this.#row(named);
    await this.#db.transaction().execute(async (tx) => {
      await tx.deleteFrom('webhook_delivery').where('endpoint_id', '=', named.id).execute();
      await tx.deleteFrom('webhook_endpoint').where('endpoint_id', '=', named.id).execute();
    });
  }

  /** An endpoint to send to; undefined if it is not on. @throws Error when its secrets cannot be opened */
  async receiver(id: string): Promise<Receiver | undefined> {
    const row = await this.#db
      .selectFrom('webhook_endpoint')
      .selectAll()
      .where('endpoint_id', '=', id)
      .where('state', '=', 'on')
      .executeTakeFirst();
    if (!row) return undefined;
    if (!this.#box) throw new Error('RECORDS_SECRET_KEY is not set, so no event can be signed');
    const open = (sealed: string): Signer => new Signer(this.#box!.open(sealed, context(id)));
    const current = open(row.secret);
    const previous = row.previous_secret === null ? undefined : open(row.previous_secret);
    const previousUntil = Number(row.previous_until ?? 0);
    return {
      id,
      tenantId: row.tenant_id,
      url: row.url,
      failingSince: row.failing_since === null ? undefined : Number(row.failing_since),
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
    await this.#db
      .updateTable('webhook_endpoint')
      .set({ failing_since: failure?.since ?? null, last_error: failure?.error.slice(0, MAX_ERROR_CHARS) ?? null })
      .where('endpoint_id', '=', id)
      .execute();
  }

  /** Switches an endpoint off, with the reason. */
  async disable(id: string, state: 'off' | 'gone', reason: string): Promise<void> {
    await this.#db
      .updateTable('webhook_endpoint')
      .set({ state, reason })
      .where('endpoint_id', '=', id)
      .where('state', '=', 'on')
      .execute();
  }

  async #row({ tenant_id, id }: WebhookNamed): Promise<EndpointRow> {
    const row = await this.#db
      .selectFrom('webhook_endpoint')
      .selectAll()
      .where('endpoint_id', '=', id)
      .where('tenant_id', '=', tenant_id)
      .executeTakeFirst();
    if (!row) throw new ToolError('NOT_FOUND', { message: `No webhook '${id}'; see GET /api/v1/webhooks` });
    return row;
  }

  #newSecret(): { secret: string; seal: (id: string) => string } {
    const box = this.#box;
    if (!box)
      throw invalid(
        'Webhooks are off: the service records has no RECORDS_SECRET_KEY to seal their secrets with; set it and restart the service',
      );
    const secret = `whsec_${randomBytes(SECRET_BYTES).toString('base64')}`;
    return { secret, seal: (id) => box.seal(secret, context(id)) };
  }
}

const context = (id: string): string => `secret of webhook/${id}`;

const invalid = (message: string): ToolError => new ToolError('REQUEST_INVALID', { message });

const isoOrNull = (at: number | null): string | null => (at === null ? null : new Date(Number(at)).toISOString());

function toWebhook(row: EndpointRow): Webhook {
  return {
    id: row.endpoint_id,
    tenant_id: row.tenant_id,
    url: row.url,
    ...(row.description !== null && { description: row.description }),
    kinds: JSON.parse(row.kinds) as EventKind[],
    tools: JSON.parse(row.tools) as string[],
    toolsets: JSON.parse(row.toolsets) as string[],
    state: row.state,
    ...(row.reason !== null && { reason: row.reason }),
    failing_since: isoOrNull(row.failing_since),
    last_error: row.last_error,
    created_at: new Date(Number(row.created_at)).toISOString(),
    created_by: row.created_by,
    previous_secret_until: isoOrNull(row.previous_until),
  };
}
