import type { ApprovalGrant, CallApproval } from '@toolfleet/client';
import { useState } from 'react';
import type { WantedGrant } from '../api/console-api.js';
import { count, dateTime } from '../format.js';
import { toAddress } from '../router.js';
import { useSigned } from '../session.js';
import { ConfirmButton, ErrorNotice, Facts, Labelled } from '../ui/components.js';
import { useAction } from '../use-action.js';
import { useQuery } from '../use-query.js';

const EVERY_MS = 10_000;

type Offer = NonNullable<CallApproval['decision']['grant']>;

/** The grant of a yes: none, unless the box is checked. */
export function GrantForm({
  offer,
  grant,
  onChange,
}: {
  offer: Offer;
  grant: WantedGrant | undefined;
  onChange: (grant: WantedGrant | undefined) => void;
}) {
  const start: WantedGrant = { hours: Math.min(1, offer.max_hours), fields: [] };
  const { fields = [] } = grant ?? start;
  const toggle = (field: string) =>
    grant &&
    onChange({
      ...grant,
      fields: fields.includes(field) ? fields.filter((one) => one !== field) : [...fields, field],
    });
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
      {grant && (
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
                onChange={({ target }) =>
                  onChange({ ...grant, hours: Math.min(target.valueAsNumber || 0.5, offer.max_hours) })
                }
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
      )}
    </fieldset>
  );
}

/** The grants that the key may give, and those for its calls; nothing when there are none. */
export function GrantList() {
  const { api } = useSigned();
  const query = useQuery('approval grants', api.approvalGrants, EVERY_MS);
  if (query.error) return <ErrorNotice error={query.error} onRetry={query.refresh} />;
  if (!query.data?.length) return null;
  return (
    <section className="stack" aria-label="Grants">
      <h2>Grants</h2>
      <p className="soft">
        Calls that run without a question until then. The rule of the policy still has to offer the grant.
      </p>
      {query.data.map((grant) => (
        <OneGrant key={grant.id} grant={grant} onRevoked={query.refresh} />
      ))}
    </section>
  );
}

function OneGrant({ grant, onRevoked }: { grant: ApprovalGrant; onRevoked: () => void }) {
  const { api } = useSigned();
  const [shown, setShown] = useState<ApprovalGrant>();
  const { error, act } = useAction();
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
      {shown?.shown !== undefined && (
        <pre tabIndex={0} aria-label="Arguments">
          {shown.shown}
        </pre>
      )}
      {shown && shown.shown === undefined && <p className="soft small">Your key may not see the arguments.</p>}
      {error && <ErrorNotice error={error} />}
      <div className="row">
        {!shown && (
          <button onClick={() => void act(async () => setShown(await api.approvalGrant(grant.id)))}>
            Show arguments
          </button>
        )}
        <ConfirmButton
          danger
          question="End this grant?"
          onConfirm={() => void act(() => api.revokeGrant(grant.id).finally(onRevoked))}
        >
          Revoke
        </ConfirmButton>
      </div>
    </article>
  );
}
