import type { FinishedCallDetail, KeptBody } from '@toolfleet/client';
import { useState } from 'react';
import { pretty } from '../format.js';
import { useSigned } from '../session.js';
import { ErrorNotice } from '../ui/components.js';
import { useQuery, type Query } from '../use-query.js';

/** The kept parts of a call, or the reason why they are not shown. */
export interface Body extends Pick<Query<KeptBody | undefined>, 'data' | 'error'> {
  /** Undefined until the record of the call is there. */
  access: FinishedCallDetail['body'] | undefined;
  /** Reads the body of another caller's call (recorded); absent where it was read, or cannot be. */
  show: (() => void) | undefined;
}

type Part = 'arguments' | 'result' | 'upstream' | 'errors';

/** The arguments and result of a call. Another caller's are read on request only, because the reading is recorded. */
export function useBody(id: string, access: Body['access']): Body {
  const { api } = useSigned();
  const [isAsked, setAsked] = useState(false);
  const isRead = access === 'own' || access === 'shared' || (access === 'recorded' && isAsked);
  const { data, error } = useQuery<KeptBody | undefined>(`body ${id} ${isRead}`, (signal) =>
    isRead ? api.callBody(id, signal) : Promise.resolve(undefined),
  );
  return { access, data, error, show: access === 'recorded' && !isAsked ? () => setAsked(true) : undefined };
}

/** One kept part, or the reason why it is not shown. */
export function BodySection({ title, part, body }: { title: string; part: Part; body: Body }) {
  const value = body.data?.[part];
  return (
    <section className="card stack" aria-labelledby={part}>
      <h2 id={part}>{title}</h2>
      {value === undefined ? (
        <WhyNoBody body={body} />
      ) : (
        <>
          <pre tabIndex={0} aria-label={title}>
            {pretty(value)}
          </pre>
          <BodyNotes part={part} body={body} />
        </>
      )}
    </section>
  );
}

/** The missing rest of a part. */
export function BodyNotes({ part, body: { data } }: { part: Part; body: Body }) {
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
export function WhyNoBody({ body: { access, data, error, show } }: { body: Body }) {
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
