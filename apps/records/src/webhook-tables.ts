import type { Generated } from 'kysely';

/** Tables of events, endpoints and deliveries, in the database of the calls. PostgreSQL returns bigint as text. */
export interface WebhookTables {
  fleet_event: { event_id: string; tenant_id: string; user_id: string | null; kind: string; seen_at: number };
  webhook_endpoint: {
    endpoint_id: string;
    tenant_id: string;
    url: string;
    description: string | null;
    /** Lists, as JSON; an empty one of tools or toolsets lets all pass. */
    kinds: string;
    tools: string;
    toolsets: string;
    state: 'on' | 'off' | 'gone';
    reason: string | null;
    failing_since: number | null;
    last_error: string | null;
    /** Sealed. */
    secret: string;
    previous_secret: string | null;
    previous_until: number | null;
    created_at: number;
    created_by: string;
  };
  webhook_delivery: {
    /** Given by the database. */
    position: Generated<number>;
    endpoint_id: string;
    tenant_id: string;
    user_id: string | null;
    event_id: string;
    kind: string;
    payload: string;
    state: 'pending' | 'delivered' | 'failed';
    attempts: number;
    event_at: number;
    /** When the next attempt is due; while one runs, when it counts as lost. */
    next_at: number;
    give_up_at: number;
    ended_at: number | null;
    status: number | null;
    error: string | null;
    duration_ms: number | null;
  };
}
