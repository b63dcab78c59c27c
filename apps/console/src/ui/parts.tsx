import type { ToolCallError } from '@toolfleet/client';
import { useId, type ReactNode } from 'react';
import { duration } from '../format.js';
import type { Query } from '../use-query.js';

export type Tone = 'plain' | 'good' | 'warn' | 'bad' | 'accent';

/** A short mark; its text says what its colour says. */
export function Badge({ tone = 'plain', children }: { tone?: Tone; children: ReactNode }) {
  return <span className={tone === 'plain' ? 'badge' : `badge ${tone}`}>{children}</span>;
}

/** Title of a view, what it is about, and what can be done with all of it. */
export function Head({ title, about, children }: { title: ReactNode; about?: ReactNode; children?: ReactNode }) {
  return (
    <header className="head">
      <div>
        <h1>{title}</h1>
        {about !== undefined && <p className="soft">{about}</p>}
      </div>
      {children !== undefined && <div className="row">{children}</div>}
    </header>
  );
}

/** A refusal or failure with what to do about it. */
export function ErrorNotice({ error, onRetry }: { error: ToolCallError; onRetry?: () => void }) {
  return (
    <div className="notice bad" role="alert">
      <strong>{error.status === 403 ? 'Your key may not do this' : error.message}</strong>
      {error.status === 403 && <span>{error.message}</span>}
      {error.hint !== undefined && <span>{error.hint}</span>}
      <span className="small soft">
        {error.code}
        {error.retryAfterMs !== undefined && ` · again in ${duration(error.retryAfterMs)}`}
        {error.callId !== undefined && ` · call ${error.callId}`}
      </span>
      {onRetry && (
        <span>
          <button onClick={onRetry}>Try again</button>
        </span>
      )}
    </div>
  );
}

/** What a query knows: its data once there is some, else that it is on its way or why it failed. */
export function Loaded<T>({ query, children }: { query: Query<T>; children: (data: T) => ReactNode }) {
  return (
    <>
      {query.error && <ErrorNotice error={query.error} onRetry={query.refresh} />}
      {query.data !== undefined ? (
        children(query.data)
      ) : query.error ? null : (
        <p className="empty" role="status">
          Loading…
        </p>
      )}
    </>
  );
}

/** Nothing to show, and why. */
export function Empty({ children }: { children: ReactNode }) {
  return <p className="empty">{children}</p>;
}

/** A label over its control. */
export function Labelled({ label, children }: { label: string; children: (id: string) => ReactNode }) {
  const id = useId();
  return (
    <div className="field">
      <label htmlFor={id}>{label}</label>
      {children(id)}
    </div>
  );
}

/** A field to search with. */
export function Search({
  label = 'Search',
  value,
  placeholder,
  onChange,
}: {
  label?: string;
  value: string;
  placeholder?: string;
  onChange: (value: string) => void;
}) {
  return (
    <Labelled label={label}>
      {(id) => (
        <input
          id={id}
          type="search"
          value={value}
          placeholder={placeholder}
          onChange={(event) => onChange(event.target.value)}
        />
      )}
    </Labelled>
  );
}

/** A select of plain texts. */
export function Choice({
  label,
  value,
  options,
  onChange,
}: {
  label: string;
  value: string;
  options: readonly (readonly [value: string, text: string])[];
  onChange: (value: string) => void;
}) {
  return (
    <Labelled label={label}>
      {(id) => (
        <select id={id} value={value} onChange={(event) => onChange(event.target.value)}>
          {options.map(([option, text]) => (
            <option key={option} value={option}>
              {text}
            </option>
          ))}
        </select>
      )}
    </Labelled>
  );
}

/** One of a few views of the same data. */
export function Segments<T extends string>({
  label,
  value,
  options,
  onChange,
}: {
  label: string;
  value: T;
  options: readonly (readonly [value: T, text: string])[];
  onChange: (value: T) => void;
}) {
  return (
    <span className="segments" role="group" aria-label={label}>
      {options.map(([option, text]) => (
        <button key={option} type="button" aria-pressed={option === value} onClick={() => onChange(option)}>
          {text}
        </button>
      ))}
    </span>
  );
}
