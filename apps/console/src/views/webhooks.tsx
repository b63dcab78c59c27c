import type { NewWebhook, Webhook, WebhookDelivery } from '@toolfleet/client';
import { useState, type FormEvent } from 'react';
import { dateTime } from '../format.js';
import { toAddress } from '../router.js';
import { useSigned } from '../session.js';
import { Badge, Columns, ConfirmButton, Empty, ErrorNotice, Head, Labelled, Loaded } from '../ui/components.js';
import { CopyButton } from '../ui/copy-button.js';
import { useAction } from '../use-action.js';
import { useQuery } from '../use-query.js';

/** Kinds of events that an endpoint can ask for. */
const KINDS = [
  'call.finished',
  'approval.asked',
  'approval.decided',
  'budget.reached',
  'tool.quarantined',
  'breaker.opened',
  'source.failing',
] as const satisfies readonly NewWebhook['kinds'][number][];

const TONES = {
  on: 'good',
  off: undefined,
  gone: 'bad',
  delivered: 'good',
  pending: undefined,
  failed: 'bad',
} as const;

/** Endpoints that events of the tenant are posted to; `#/webhooks/<id>` shows the deliveries of one. */
export function WebhooksView({ item }: { item: string | undefined }) {
  return item === undefined ? <Webhooks /> : <Deliveries id={item} />;
}

function Webhooks() {
  const { api, me } = useSigned();
  const query = useQuery('webhooks', api.webhooks);
  const { error, act } = useAction(query.refresh);
  return (
    <>
      <Head title="Webhooks" about={`Events of ${me.tenant_id} are posted to these addresses, signed, at least once.`}>
        <button onClick={query.refresh}>Refresh</button>
      </Head>
      <NewWebhookForm onCreated={query.refresh} />
      {error && <ErrorNotice error={error} />}
      <section className="card stack" aria-labelledby="webhooks">
        <h2 id="webhooks">Endpoints</h2>
        <Loaded query={query}>
          {(webhooks) =>
            webhooks.length === 0 ? (
              <Empty>No endpoints yet.</Empty>
            ) : (
              <table className="table">
                <Columns names={['Address', 'Events', 'State']} actions />
                <tbody>
                  {webhooks.map((webhook) => (
                    <WebhookRow
                      key={webhook.id}
                      webhook={webhook}
                      onSwitch={(on) => void act(() => api.switchWebhook(webhook.id, on))}
                      onRemove={() => void act(() => api.removeWebhook(webhook.id))}
                    />
                  ))}
                </tbody>
              </table>
            )
          }
        </Loaded>
      </section>
    </>
  );
}

function WebhookRow(props: { webhook: Webhook; onSwitch: (on: boolean) => void; onRemove: () => void }) {
  const { webhook, onSwitch, onRemove } = props;
  const { id, url, state } = webhook;
  const filters = [...(webhook.tools ?? []), ...(webhook.toolsets ?? [])];
  return (
    <tr>
      <td className="lead">
        <span className="wrap">
          <a href={toAddress('webhooks', id)}>{url}</a> <code className="soft">{id}</code>
        </span>
        {webhook.description !== undefined && <span className="small soft">{webhook.description}</span>}
      </td>
      <td data-label="Events">
        {webhook.kinds.join(', ')}
        {filters.length > 0 && <span className="small soft"> of {filters.join(' ')}</span>}
      </td>
      <td data-label="State">
        <Badge tone={webhook.failing_since === null ? TONES[state] : 'bad'}>
          {state === 'on' && webhook.failing_since !== null ? 'failing' : state}
        </Badge>
        {webhook.failing_since !== null && (
          <span className="small soft">
            {' '}
            since {dateTime(webhook.failing_since)}: {webhook.last_error}
          </span>
        )}
        {webhook.reason !== undefined && <span className="small soft"> {webhook.reason}</span>}
      </td>
      <td>
        <span className="row">
          <button onClick={() => onSwitch(state !== 'on')}>{state === 'on' ? 'Switch off' : 'Switch on'}</button>
          <ConfirmButton danger question={`Remove ${url} with its deliveries?`} onConfirm={onRemove}>
            Remove<span className="visually-hidden"> the webhook {id}</span>
          </ConfirmButton>
        </span>
      </td>
    </tr>
  );
}

/** Makes an endpoint and shows its secret once. */
function NewWebhookForm({ onCreated }: { onCreated: () => void }) {
  const { api } = useSigned();
  const [url, setUrl] = useState('');
  const [tools, setTools] = useState('');
  const [kinds, setKinds] = useState<NewWebhook['kinds']>(['call.finished']);
  const [secret, setSecret] = useState<string>();
  const { error, act } = useAction(onCreated);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    const globs = tools.split(/[\s,]+/).filter(Boolean);
    void act(async () => {
      const made = await api.createWebhook({ url: url.trim(), kinds, ...(globs.length > 0 && { tools: globs }) });
      setSecret(made.secret);
      setUrl('');
    });
  };
  const toggle = (kind: (typeof KINDS)[number]) =>
    setKinds(kinds.includes(kind) ? kinds.filter((one) => one !== kind) : [...kinds, kind]);
  return (
    <section className="card stack" aria-labelledby="new-webhook">
      <h2 id="new-webhook">New endpoint</h2>
      <form className="stack" onSubmit={submit}>
        <div className="cards">
          <Labelled label="Address">
            {(id) => (
              <input
                id={id}
                value={url}
                placeholder="https://hooks.example.com/toolfleet"
                autoComplete="off"
                spellCheck={false}
                onChange={(event) => setUrl(event.target.value)}
              />
            )}
          </Labelled>
          <Labelled label="Tools">
            {(id) => (
              <input
                id={id}
                value={tools}
                placeholder="all, or names with *"
                autoComplete="off"
                spellCheck={false}
                onChange={(event) => setTools(event.target.value)}
              />
            )}
          </Labelled>
        </div>
        <fieldset className="row">
          <legend>Events</legend>
          {KINDS.map((kind) => (
            <label key={kind} className="row">
              <input type="checkbox" checked={kinds.includes(kind)} onChange={() => toggle(kind)} />
              {kind}
            </label>
          ))}
        </fieldset>
        <button className="primary" disabled={url.trim() === '' || kinds.length === 0}>
          Create
        </button>
      </form>
      {error && <ErrorNotice error={error} />}
      {secret !== undefined && (
        <div className="notice good" role="status">
          <strong>The secret is shown only now</strong>
          <span className="row">
            <code className="wrap">{secret}</code> <CopyButton text={secret} />
          </span>
        </div>
      )}
    </section>
  );
}

function Deliveries({ id }: { id: string }) {
  const { api } = useSigned();
  const [before, setBefore] = useState<string>();
  const query = useQuery(`deliveries ${id} ${before ?? ''}`, (signal) => api.deliveries(id, before, signal));
  const { error, act } = useAction(query.refresh);
  return (
    <>
      <Head title="Deliveries" about={`Of the webhook ${id}, the newest first.`}>
        <a href={toAddress('webhooks')}>All webhooks</a>
        <button onClick={() => void act(() => api.testWebhook(id))}>Send a test</button>
        <button onClick={query.refresh}>Refresh</button>
      </Head>
      {error && <ErrorNotice error={error} />}
      <section className="card stack" aria-label="Deliveries">
        <Loaded query={query}>
          {({ deliveries, next }) =>
            deliveries.length === 0 ? (
              <Empty>Nothing was posted to it yet.</Empty>
            ) : (
              <>
                <table className="table">
                  <Columns names={['Event', 'Happened', 'State', 'Answer']} actions />
                  <tbody>
                    {deliveries.map((one) => (
                      <DeliveryRow
                        key={one.event_id}
                        delivery={one}
                        onAgain={() => void act(() => api.redeliver(id, one.event_id))}
                      />
                    ))}
                  </tbody>
                </table>
                {next !== undefined && <button onClick={() => setBefore(next)}>Older</button>}
              </>
            )
          }
        </Loaded>
      </section>
    </>
  );
}

function DeliveryRow({ delivery, onAgain }: { delivery: WebhookDelivery; onAgain: () => void }) {
  const { event_id: eventId, kind, state, status, error, duration_ms: took } = delivery;
  return (
    <tr>
      <td className="lead">
        <details>
          <summary>
            <strong>{kind}</strong> <code className="soft">{eventId}</code>
          </summary>
          <pre className="wrap">{JSON.stringify(delivery.payload, null, 2)}</pre>
        </details>
      </td>
      <td data-label="Happened">{dateTime(delivery.event_at)}</td>
      <td data-label="State">
        <Badge tone={TONES[state]}>{state}</Badge>{' '}
        <span className="small soft">
          {delivery.attempts} {delivery.attempts === 1 ? 'attempt' : 'attempts'}
          {delivery.next_attempt_at !== null && `, next ${dateTime(delivery.next_attempt_at)}`}
        </span>
      </td>
      <td data-label="Answer">
        {error ?? (status === null ? 'none yet' : `HTTP ${status}`)}
        {took !== null && <span className="small soft"> in {took} ms</span>}
      </td>
      <td>
        <button onClick={onAgain}>
          Send again<span className="visually-hidden"> the event {eventId}</span>
        </button>
      </td>
    </tr>
  );
}
