import type { FinishedCallDetail, KeptBody } from '@toolfleet/client';
import { useState } from 'react';
import { useRoute, type Loading } from '../api/queries.js';
import { pretty } from '../format.js';
import { Card, ErrorNotice, Verbatim } from '../ui/components.js';

/** The kept parts of a call, or the reason why they are not shown. */
export interface ShownBody extends Pick<Loading<KeptBody>, 'data' | 'error'> {
  /** Undefined until the record of the call is there. */
  access: FinishedCallDetail['body'] | undefined;
  /** Reads the body of another caller's call (recorded); absent where it was read, or cannot be. */
  show: (() => void) | undefined;
}

type BodyPart = 'arguments' | 'result' | 'upstream' | 'errors';

/** The arguments and result of a call. Another caller's are read on request only, because the reading is recorded. */
export function useBody(id: string, access: ShownBody['access']): ShownBody {
  const [isAsked, setAsked] = useState(false);
  const isRead = access === 'own' || access === 'shared' || (access === 'recorded' && isAsked);
  const { data, error } = useRoute('GET /api/v1/calls/{id}/body', { path: { id } }, { enabled: isRead });
  const body = isRead ? data?.body : undefined;
  return { access, data: body, error, show: access === 'recorded' && !isAsked ? () => setAsked(true) : undefined };
}

/** One kept part, or the reason why it is not shown. */
export function BodySection({ title, part, body }: { title: string; part: BodyPart; body: ShownBody }) {
  const value = body.data?.[part];
  return (
    <Card title={title}>
      {value === undefined ? (
        <WhyNoBody body={body} />
      ) : (
        <>
          <Verbatim label={title} text={pretty(value)} />
          <BodyNotes part={part} body={body} />
        </>
      )}
    </Card>
  );
}

/** The missing rest of a part. */
export function BodyNotes({ part, body: { data } }: { part: BodyPart; body: ShownBody }) {
  const isCut = data?.cut?.includes(part);
  const isRedacted = data?.redacted?.includes(part);
  return (
    <>
      {isCut && <p className="small soft">Cut: it was larger than what is kept of a call.</p>}
      {isRedacted && <p className="small soft">Secret values were not kept; “[redacted]” is in their place.</p>}
    </>
  );
}

/** Why a part is not shown, with the way to show it. */
export function WhyNoBody({ body: { access, data, error, show } }: { body: ShownBody }) {
  if (error) return <ErrorNotice error={error} />;
  if (show)
    return (
      <p className="row">
        <button onClick={show}>Show arguments and result</button>
        <span className="soft">Your reading is recorded; the caller sees it.</span>
      </p>
    );
  return <p className="soft">{data ? 'There was none.' : WHY[access ?? 'not_kept']}</p>;
}

const WHY: Readonly<Record<FinishedCallDetail['body'], string>> = {
  not_kept: 'Not kept: call_bodies of the configuration file says of which calls arguments and results are kept.',
  denied: 'For the key or user that made the call, and for the role auditor.',
  own: 'Loading …',
  shared: 'Loading …',
  recorded: 'Loading …',
};
