import type { RouteAnswer, Webhook, WebhookDelivery } from '@toolfleet/client';
import { useState } from 'react';
import { useRoute } from '../api/queries.js';
import { dateTime, pretty } from '../format.js';
import { toAddress } from '../router.js';
import { RouteForm } from '../schema/route-form.js';
import { useSigned } from '../session.js';
import { ActionButton, Badge, Card, Head, Loaded, NewSecret } from '../ui/components.js';
import { RouteTable, Table, type TableColumn } from '../ui/table.js';

const TONES = { on: 'good', off: 'plain', gone: 'bad', delivered: 'good', pending: 'plain', failed: 'bad' } as const;

/** Endpoints that events of the tenant are posted to; `#/webhooks/<id>` shows the deliveries of one. */
export function WebhooksView({ item }: { item: string | undefined }) {
  return item === undefined ? <Webhooks /> : <Deliveries id={item} />;
}

const WEBHOOK_COLUMNS: readonly TableColumn<Webhook>[] = [
  {
    head: 'Address',
    kind: 'lead',
    cell: ({ id, url }) => (
      <span className="wrap">
        <a href={toAddress('webhooks', id)}>{url}</a> <code className="soft">{id}</code>
      </span>
    ),
    note: ({ description }) => description,
  },
  {
    head: 'Events',
    cell: ({ kinds }) => kinds.join(', '),
    note: ({ tools = [], toolsets = [] }) =>
      [...tools, ...toolsets].length > 0 && `of ${[...tools, ...toolsets].join(' ')}`,
  },
  {
    head: 'State',
    cell: ({ state, failing_since: since }) => (
      <Badge tone={since === null ? TONES[state] : 'bad'}>{state === 'on' && since ? 'failing' : state}</Badge>
    ),
    note: ({ failing_since: since, last_error: error, reason }) =>
      since === null ? reason : `since ${dateTime(since)}: ${error} ${reason ?? ''}`,
  },
];

function Webhooks() {
  const { api, me } = useSigned();
  const about = `Events of ${me.tenant_id} are posted to these addresses, signed, at least once.`;
  const switchTo = (id: string, on: boolean) =>
    api.request('PUT /api/v1/webhooks/{id}', { path: { id }, body: { on } });
  const remove = (id: string) => api.request('DELETE /api/v1/webhooks/{id}', { path: { id } });
  return (
    <>
      <Head title="Webhooks" about={about} refreshes />
      <NewWebhook />
      <RouteTable
        route="GET /api/v1/webhooks"
        title="Endpoints"
        empty="No endpoints yet."
        rowKey={({ id }) => id}
        columns={WEBHOOK_COLUMNS}
        actions={({ id, url, state }) => (
          <>
            <ActionButton work={() => switchTo(id, state !== 'on')}>
              {state === 'on' ? 'Switch off' : 'Switch on'}
            </ActionButton>
            <ActionButton
              danger
              hidden={`the webhook ${id}`}
              question={`Remove ${url} with its deliveries?`}
              work={() => remove(id)}
            >
              Remove
            </ActionButton>
          </>
        )}
      />
    </>
  );
}

/** Makes an endpoint and shows its secret once. */
function NewWebhook() {
  const [made, setMade] = useState<RouteAnswer<'POST /api/v1/webhooks'>>();
  return (
    <Card title="New endpoint">
      <RouteForm
        route="POST /api/v1/webhooks"
        members={{
          url: { label: 'Address', placeholder: 'https://hooks.example.com/toolfleet' },
          tools: { placeholder: 'all, or names with *' },
          toolsets: { placeholder: 'all' },
          description: {},
          kinds: { label: 'Events', initial: ['call.finished'] },
        }}
        submit="Create"
        onDone={setMade}
      />
      {made && <NewSecret title={`Secret of ${made.webhook.url}`} secret={made.secret} />}
    </Card>
  );
}

const DELIVERY_COLUMNS: readonly TableColumn<WebhookDelivery>[] = [
  {
    head: 'Event',
    kind: 'lead',
    cell: ({ kind, event_id: eventId, payload }) => (
      <details>
        <summary>
          <strong>{kind}</strong> <code className="soft">{eventId}</code>
        </summary>
        <pre className="wrap">{pretty(payload)}</pre>
      </details>
    ),
  },
  { head: 'Happened', cell: (one) => dateTime(one.event_at) },
  {
    head: 'State',
    cell: ({ state }) => <Badge tone={TONES[state]}>{state}</Badge>,
    note: ({ attempts, next_attempt_at: at }) =>
      `${attempts} ${attempts === 1 ? 'attempt' : 'attempts'}${at === null ? '' : `, next ${dateTime(at)}`}`,
  },
  {
    head: 'Answer',
    cell: ({ error, status }) => error ?? (status === null ? 'none yet' : `HTTP ${status}`),
    note: ({ duration_ms: took }) => took !== null && `in ${took} ms`,
  },
];

function Deliveries({ id }: { id: string }) {
  const { api } = useSigned();
  const [before, setBefore] = useState<string>();
  const query = useRoute('GET /api/v1/webhooks/{id}/deliveries', { path: { id }, query: { before } });
  const test = () => api.request('POST /api/v1/webhooks/{id}/test', { path: { id } });
  const redeliver = (event_id: string) =>
    api.request('POST /api/v1/webhooks/{id}/redeliver', { path: { id }, body: { event_id } });
  return (
    <>
      <Head title="Deliveries" about={`Of the webhook ${id}, the newest first.`} refreshes>
        <a href={toAddress('webhooks')}>All webhooks</a>
        <ActionButton work={test}>Send a test</ActionButton>
      </Head>
      <Card label="Deliveries">
        <Loaded query={query}>
          {({ deliveries, next }) => (
            <>
              <Table
                rows={deliveries}
                rowKey={(one) => one.event_id}
                empty="Nothing was posted to it yet."
                columns={DELIVERY_COLUMNS}
                actions={({ event_id: eventId }) => (
                  <ActionButton hidden={`the event ${eventId}`} work={() => redeliver(eventId)}>
                    Send again
                  </ActionButton>
                )}
              />
              {next !== undefined && <button onClick={() => setBefore(next)}>Older</button>}
            </>
          )}
        </Loaded>
      </Card>
    </>
  );
}
