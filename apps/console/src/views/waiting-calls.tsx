import type { CallApproval } from '@toolfleet/client';
import { useState } from 'react';
import { useRoute } from '../api/queries.js';
import { dateTime, money } from '../format.js';
import { toAddress } from '../router.js';
import { useSigned } from '../session.js';
import {
  ActionButton,
  Badge,
  Empty,
  Facts,
  Head,
  Loaded,
  Notice,
  Spread,
  TextInput,
  Verbatim,
  WaitingMark,
} from '../ui/components.js';
import { GrantForm, GrantList, type GivenGrant } from './approval-grants.js';

const EVERY_MS = 10_000;
const PENDING = { query: { state: 'pending' } } as const;

/** Calls that wait for a person: the key may decide on them, or made them. With an id, one of them. */
export function WaitingCallsView({ item }: { item: string | undefined }) {
  return item === undefined ? <Inbox /> : <OneCall key={item} id={item} />;
}

/** Number of calls that the key may decide on; nothing when there are none. */
export const WaitingCallsMark = () => <WaitingMark count={useCallsToDecide()?.own} />;

/** How many calls wait, and on how many the key may decide; undefined until it is known, and for a key without the right to decide. */
export function useCallsToDecide(): { all: number; own: number } | undefined {
  const decides = useSigned().me.rights.includes('decide_calls');
  const { data } = useRoute('GET /api/v1/approvals', PENDING, { everyMs: EVERY_MS, enabled: decides });
  if (!decides || !data) return undefined;
  return { all: data.approvals.length, own: data.approvals.filter((call) => call.may_decide).length };
}

function Inbox() {
  const query = useRoute('GET /api/v1/approvals', PENDING, { everyMs: EVERY_MS });
  return (
    <>
      <Head
        title="Waiting calls"
        about="Calls that a rule of the policy lets run only after people approved them. The key that made a call does not decide on it."
        refreshes
      />
      <Loaded query={query}>
        {({ approvals }) =>
          approvals.length === 0 ? (
            <Empty>No call waits.</Empty>
          ) : (
            <div className="stack">
              {approvals.map((call) => (
                <article key={call.id} className="card stack" aria-label={call.id}>
                  <Spread aside={<State call={call} />}>
                    <h2 className="wrap">
                      <a href={toAddress('approvals', call.id)}>{call.tool}</a>
                    </h2>
                  </Spread>
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
  const query = useRoute('GET /api/v1/approvals/{id}', { path: { id } });
  return (
    <>
      <Head title="Waiting call" about={<a href={toAddress('approvals')}>All that wait</a>} refreshes />
      <Loaded query={query}>{(call) => <WaitingCall call={call} />}</Loaded>
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

const WaitingCall = ({ call }: { call: CallApproval }) => (
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
      <Vote key={vote.key_id ?? vote.user_id} vote={vote} />
    ))}
    {call.shown !== undefined && <Verbatim label="Arguments" text={call.shown} />}
    {(call.hidden_characters ?? 0) > 0 && (
      <Notice tone="warn" title="The arguments have hidden characters">
        <span>{call.hidden_characters} of them are shown as their code points.</span>
      </Notice>
    )}
    {call.state === 'pending' && call.why_not !== undefined && <p className="soft small wrap">{call.why_not}</p>}
    {call.may_decide && <Decision call={call} />}
  </article>
);

function Vote({ vote }: { vote: CallApproval['votes'][number] }) {
  const { decision, person, user_id: user, key_id: key, via, at, note, grant } = vote;
  return (
    <p className="small wrap">
      {decision === 'approve' ? 'Approved' : 'Rejected'} by {(person ?? vote).user_id}
      {key === undefined ? via && ` (${via})` : ` (key ${key} of ${user})`} on {dateTime(at)}
      {note === undefined ? '' : `: ${note}`}
      {grant && `, with others like it until ${dateTime(grant.until)}`}
    </p>
  );
}

/** The decision of a caller that may decide. */
function Decision({ call: { id, tool, decision } }: { call: CallApproval }) {
  const { api } = useSigned();
  const [text, setNote] = useState('');
  const [grant, setGrant] = useState<GivenGrant>();
  const path = { id };
  const note = text.trim() || undefined;
  return (
    <>
      <TextInput
        label="Note, which the caller of a rejected call sees"
        maxLength={1_000}
        value={text}
        onChange={setNote}
        spellCheck
      />
      {decision.grant && <GrantForm offer={decision.grant} grant={grant} onChange={setGrant} />}
      <div className="row">
        <ActionButton
          question={`Let this call of ${tool} run${grant ? ', and others like it' : ''}?`}
          work={() => api.request('POST /api/v1/approvals/{id}/approve', { path, body: { note, grant } })}
        >
          Approve
        </ActionButton>
        <ActionButton
          danger
          question="Reject this call?"
          work={() => api.request('POST /api/v1/approvals/{id}/reject', { path, body: { note } })}
        >
          Reject
        </ActionButton>
      </div>
    </>
  );
}
