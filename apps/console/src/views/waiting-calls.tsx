import type { CallApproval, ToolCallError } from '@toolfleet/client';
import { useState } from 'react';
import type { WantedGrant } from '../api/console-api.js';
import { dateTime, money } from '../format.js';
import { toAddress } from '../router.js';
import { useSigned } from '../session.js';
import { Badge, ConfirmButton, Empty, ErrorNotice, Facts, Head, Labelled, Loaded } from '../ui/components.js';
import { asToolError, useQuery } from '../use-query.js';
import { GrantForm, GrantList } from './approval-grants.js';

const EVERY_MS = 10_000;

/** Calls that wait for a person: those that the key may decide on, and those that it made; or one of them. */
export function WaitingCallsView({ item }: { item: string | undefined }) {
  return item === undefined ? <Inbox /> : <OneCall key={item} id={item} />;
}

/** Number of calls that the key may decide on; nothing when there are none. */
export function WaitingCallsMark() {
  const waiting = useCallsToDecide() ?? 0;
  if (waiting === 0) return null;
  return (
    <Badge tone="warn">
      {waiting}
      <span className="visually-hidden"> waiting</span>
    </Badge>
  );
}

/** Number of calls that the key may decide on; undefined until it is known, and for a key without the right to decide. */
export function useCallsToDecide(): number | undefined {
  const { api, me } = useSigned();
  const decides = me.rights.includes('decide_calls');
  const ask = decides ? api.waitingCalls : noCalls;
  const { data } = useQuery(decides ? 'waiting calls' : 'no calls', ask, decides ? EVERY_MS : undefined);
  return decides ? data?.filter((call) => call.may_decide).length : undefined;
}

const noCalls = (): Promise<CallApproval[]> => Promise.resolve([]);

function Inbox() {
  const { api } = useSigned();
  const query = useQuery('waiting calls', api.waitingCalls, EVERY_MS);
  return (
    <>
      <Head
        title="Waiting calls"
        about="Calls that a rule of the policy lets run only after people approved them. The key that made a call does not decide on it."
      >
        <button onClick={query.refresh}>Refresh</button>
      </Head>
      <Loaded query={query}>
        {(calls) =>
          calls.length === 0 ? (
            <Empty>No call waits.</Empty>
          ) : (
            <div className="stack">
              {calls.map((call) => (
                <article key={call.id} className="card stack" aria-label={call.id}>
                  <div className="row spread">
                    <h2 className="wrap">
                      <a href={toAddress('approvals', call.id)}>{call.tool}</a>
                    </h2>
                    <State call={call} />
                  </div>
                  <Questions call={call} />
                  <span className="soft small">
                    {call.tenant_id}/{call.user_id}, until {dateTime(call.decision.until)}
                  </span>
                </article>
              ))}
            </div>
          )
        }
      </Loaded>
      <GrantList />
    </>
  );
}

function OneCall({ id }: { id: string }) {
  const { api } = useSigned();
  const query = useQuery(`approval ${id}`, (signal) => api.waitingCall(id, signal));
  return (
    <>
      <Head title="Waiting call" about={<a href={toAddress('approvals')}>All that wait</a>}>
        <button onClick={query.refresh}>Refresh</button>
      </Head>
      <Loaded query={query}>{(call) => <Decision call={call} onDecided={query.refresh} />}</Loaded>
    </>
  );
}

const Questions = ({ call }: { call: CallApproval }) =>
  call.decision.questions.map((question) => (
    <p key={question} className="wrap">
      {question}
    </p>
  ));

function State({ call: { state, may_decide: mayDecide } }: { call: CallApproval }) {
  if (state !== 'pending') return <Badge tone={state === 'done' ? 'good' : 'plain'}>{state}</Badge>;
  return <Badge tone="warn">{mayDecide ? 'waits for you' : 'waits for others'}</Badge>;
}

/** Who decides, in words. */
function deciders({ decision: { quorum, roles, right } }: CallApproval): string {
  const who = roles?.map((names) => names.join(' or ')).join(' and ') ?? `right ${right ?? ''}`;
  return quorum > 1 ? `${quorum} people with ${who}` : who;
}

function Decision({ call, onDecided }: { call: CallApproval; onDecided: () => void }) {
  const { api } = useSigned();
  const [note, setNote] = useState('');
  const [grant, setGrant] = useState<WantedGrant>();
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<ToolCallError>();
  const decide = async (decision: 'approve' | 'reject') => {
    setBusy(true);
    setError(undefined);
    try {
      await api.decideCall(call.id, decision, { note: note.trim(), ...(decision === 'approve' && grant && { grant }) });
    } catch (thrown) {
      setError(asToolError(thrown));
    } finally {
      setBusy(false);
      onDecided();
    }
  };
  return (
    <article className="card stack" aria-label={call.id}>
      <div className="row spread">
        <h2 className="wrap">{call.tool}</h2>
        <State call={call} />
      </div>
      <Questions call={call} />
      <Facts
        facts={[
          ['Made by', `${call.tenant_id}/${call.user_id}`],
          ['For', call.acting_user_id === call.user_id ? undefined : call.acting_user_id],
          ['Over', call.entry_point],
          ['Costs at most', money(call.max_cost_usd)],
          ['Decided by', deciders(call)],
          ['Until', dateTime(call.decision.until)],
          ['Then', call.parked ? 'it runs' : 'its caller makes it again'],
          ['Code', call.code],
        ]}
      />
      {call.votes.map((vote) => (
        <p key={vote.key_id ?? vote.user_id} className="small wrap">
          {vote.decision === 'approve' ? 'Approved' : 'Rejected'} by {(vote.person ?? vote).user_id}
          {vote.key_id === undefined
            ? vote.via && ` (${vote.via})`
            : ` (key ${vote.key_id} of ${vote.user_id})`} on{' '}
          {dateTime(vote.at)}
          {vote.note === undefined ? '' : `: ${vote.note}`}
          {vote.grant && `, with others like it until ${dateTime(vote.grant.until)}`}
        </p>
      ))}
      {call.shown !== undefined && (
        <pre tabIndex={0} aria-label="Arguments">
          {call.shown}
        </pre>
      )}
      {(call.hidden_characters ?? 0) > 0 && (
        <div className="notice warn">
          <strong>The arguments have hidden characters</strong>
          <span>{call.hidden_characters} of them are shown as their code points.</span>
        </div>
      )}
      {call.state === 'pending' && call.why_not !== undefined && <p className="soft small wrap">{call.why_not}</p>}
      {error && <ErrorNotice error={error} />}
      {call.may_decide && (
        <>
          <Labelled label="Note, which the caller of a rejected call sees">
            {(field) => (
              <input id={field} value={note} maxLength={1_000} onChange={(event) => setNote(event.target.value)} />
            )}
          </Labelled>
          {call.decision.grant && <GrantForm offer={call.decision.grant} grant={grant} onChange={setGrant} />}
          <div className="row">
            <ConfirmButton
              question={
                grant ? `Let this call of ${call.tool} run, and others like it?` : `Let this call of ${call.tool} run?`
              }
              disabled={busy}
              onConfirm={() => void decide('approve')}
            >
              Approve
            </ConfirmButton>
            <ConfirmButton danger question="Reject this call?" disabled={busy} onConfirm={() => void decide('reject')}>
              Reject
            </ConfirmButton>
          </div>
        </>
      )}
    </article>
  );
}
