import type { ApprovalGrant, CallApproval, RouteRequest } from '@toolfleet/client';
import { useState } from 'react';
import { useRoute } from '../api/queries.js';
import { count, dateTime } from '../format.js';
import { toAddress } from '../router.js';
import { useSigned } from '../session.js';
import { ActionButton, ErrorNotice, Facts, Labelled, Verbatim } from '../ui/components.js';

const EVERY_MS = 10_000;

type Offer = NonNullable<CallApproval['decision']['grant']>;
/** A grant that a decider gives with the approval. */
export type GivenGrant = NonNullable<RouteRequest<'POST /api/v1/approvals/{id}/approve'>['body']['grant']>;

interface GrantProps {
  offer: Offer;
  grant: GivenGrant;
  onChange: (grant: GivenGrant | undefined) => void;
}

/** The grant of a yes: none, unless the box is checked. */
export function GrantForm({ offer, grant, onChange }: Omit<GrantProps, 'grant'> & { grant: GivenGrant | undefined }) {
  const start: GivenGrant = { hours: Math.min(1, offer.max_hours), fields: [] };
  return (
    <fieldset className="stack">
      <legend>Other calls like this one</legend>
      <label className="row">
        <input type="checkbox" checked={!!grant} onChange={() => onChange(grant ? undefined : start)} />
        Also allow them without asking
      </label>
      {offer.for.map((text) => (
        <span key={text} className="soft small wrap">
          {text}
        </span>
      ))}
      {grant && <GrantLimits offer={offer} grant={grant} onChange={onChange} />}
    </fieldset>
  );
}

function GrantLimits({ offer, grant, onChange }: GrantProps) {
  const { fields = [] } = grant;
  const toggle = (field: string) =>
    onChange({ ...grant, fields: fields.includes(field) ? fields.filter((one) => one !== field) : [...fields, field] });
  const setHours = (hours: number) => onChange({ ...grant, hours: Math.min(hours || 0.5, offer.max_hours) });
  return (
    <>
      <Labelled label={`Hours, at most ${offer.max_hours}`}>
        {(id) => (
          <input
            id={id}
            type="number"
            min={0.5}
            max={offer.max_hours}
            step={0.5}
            value={grant.hours}
            onChange={({ target }) => setHours(target.valueAsNumber)}
          />
        )}
      </Labelled>
      {offer.fields.map((field) => (
        <label key={field} className="row">
          <input type="checkbox" checked={fields.includes(field)} onChange={() => toggle(field)} />
          <span>
            <code>{field}</code> may differ
          </span>
        </label>
      ))}
      <span className="soft small">
        All other arguments are those of this call
        {offer.max_uses === undefined ? '.' : `; at most ${count(offer.max_uses)} calls.`}
      </span>
    </>
  );
}

/** The grants that the key may give, and those for its calls; nothing when there are none. */
export function GrantList() {
  const query = useRoute('GET /api/v1/approval-grants', {}, { everyMs: EVERY_MS });
  if (query.error) return <ErrorNotice error={query.error} onRetry={query.refresh} />;
  if (!query.data?.grants.length) return null;
  return (
    <section className="stack" aria-label="Grants">
      <h2>Grants</h2>
      <p className="soft">
        Calls that run without a question until then. The rule of the policy still has to offer the grant.
      </p>
      {query.data.grants.map((grant) => (
        <OneGrant key={grant.id} grant={grant} />
      ))}
    </section>
  );
}

/** A grant; its arguments are read on request only, because the reading is logged. */
function OneGrant({ grant }: { grant: ApprovalGrant }) {
  const { api } = useSigned();
  const [shown, setShown] = useState<ApprovalGrant>();
  const path = { id: grant.id };
  const show = async () => setShown(await api.request('GET /api/v1/approval-grants/{id}', { path }));
  const used = grant.max_uses === undefined ? count(grant.uses) : `${count(grant.uses)} of ${count(grant.max_uses)}`;
  return (
    <article className="card stack" aria-label={grant.id}>
      <h3 className="wrap">{grant.tool}</h3>
      {grant.for.map((text) => (
        <p key={text} className="wrap">
          {text}
        </p>
      ))}
      <Facts
        facts={[
          ['Calls of', `${grant.tenant_id}/${grant.user_id}`],
          ['For', grant.acting_user_id === grant.user_id ? undefined : grant.acting_user_id],
          ['Granted by', grant.granted_by.join(', ')],
          ['Until', dateTime(grant.until)],
          ['Used', grant.last_used_at === undefined ? used : `${used}, last on ${dateTime(grant.last_used_at)}`],
          ['May differ', grant.fields.length === 0 ? 'no argument' : grant.fields.join(', ')],
        ]}
      />
      <a href={toAddress('approvals', grant.approval_id)}>The approved call</a>
      {shown?.shown !== undefined && <Verbatim label="Arguments" text={shown.shown} />}
      {shown && shown.shown === undefined && <p className="soft small">Your key may not see the arguments.</p>}
      <div className="row">
        {!shown && <ActionButton work={show}>Show arguments</ActionButton>}
        <ActionButton
          danger
          question="End this grant?"
          work={() => api.request('DELETE /api/v1/approval-grants/{id}', { path })}
        >
          Revoke
        </ActionButton>
      </div>
    </article>
  );
}
