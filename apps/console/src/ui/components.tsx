import type { ToolCallError } from '@toolfleet/client';
import { useId, type ReactNode, useRef, useState } from 'react';
import { duration } from '../format.js';
import type { Query } from '../use-query.js';

export type Tone = 'plain' | 'good' | 'warn' | 'bad' | 'accent';

/** A short label. Its text carries the meaning without the color. */
export function Badge({ tone = 'plain', children }: { tone?: Tone; children: ReactNode }) {
  return <span className={tone === 'plain' ? 'badge' : `badge ${tone}`}>{children}</span>;
}

/** Title of a view, its description, and actions for the whole view. */
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

/** An error with its hint. */
export function ErrorNotice({ error, onRetry }: { error: ToolCallError; onRetry?: () => void }) {
  const isDenied = error.code === 'PERMISSION_DENIED';
  return (
    <div className="notice bad" role="alert">
      <strong>{isDenied ? 'Your key may not do this' : error.message}</strong>
      {isDenied && <span>{error.message}</span>}
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

/** Renders a query: its data, or that it is loading, or its error. */
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

/** Explains why there is nothing to show. */
export function Empty({ children }: { children: ReactNode }) {
  return <p className="empty">{children}</p>;
}

/**
 * The head of a table.
 * @param figures names of the columns of figures
 * @param actions adds a column of buttons that only screen readers name
 */
export function Columns({
  names,
  figures = [],
  actions = false,
}: {
  names: readonly string[];
  figures?: readonly string[];
  actions?: boolean;
}) {
  return (
    <thead>
      <tr>
        {names.map((name) => (
          <th key={name} scope="col" className={figures.includes(name) ? 'figure' : undefined}>
            {name}
          </th>
        ))}
        {actions && (
          <th scope="col">
            <span className="visually-hidden">Actions</span>
          </th>
        )}
      </tr>
    </thead>
  );
}

/** A label above its control. */
export function Labelled({ label, children }: { label: string; children: (id: string) => ReactNode }) {
  const id = useId();
  return (
    <div className="field">
      <label htmlFor={id}>{label}</label>
      {children(id)}
    </div>
  );
}

/** A search field. */
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

/** A select with text options. */
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

/** Switches between a few views of the same data. */
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

/** A button that asks for confirmation. Keyboard focus returns to it afterwards. */
export function ConfirmButton({
  children,
  question,
  danger = false,
  disabled = false,
  onConfirm,
}: {
  children: ReactNode;
  question: string;
  danger?: boolean;
  disabled?: boolean;
  onConfirm: () => void;
}) {
  const [asking, setAsking] = useState(false);
  const wasAsked = useRef(false);
  const answer = (yes: boolean) => {
    setAsking(false);
    if (yes) onConfirm();
  };
  if (!asking)
    return (
      <button
        className={danger ? 'danger' : ''}
        disabled={disabled}
        ref={(button) => {
          if (button && wasAsked.current) button.focus();
          if (button) wasAsked.current = false;
        }}
        onClick={() => {
          wasAsked.current = true;
          setAsking(true);
        }}
      >
        {children}
      </button>
    );
  return (
    <span
      className="row"
      role="group"
      aria-label={question}
      onKeyDown={(event) => event.key === 'Escape' && answer(false)}
    >
      <span className="small">{question}</span>
      <button autoFocus className={danger ? 'danger' : 'primary'} onClick={() => answer(true)}>
        Yes
      </button>
      <button onClick={() => answer(false)}>No</button>
    </span>
  );
}

/** A list of terms and values without the undefined ones. `narrow` is for short figures. */
export function Facts({
  facts,
  narrow = false,
}: {
  facts: readonly (readonly [term: string, value: string | undefined])[];
  narrow?: boolean;
}) {
  return (
    <dl className={narrow ? 'facts figures' : 'facts'}>
      {facts.map(
        ([term, value]) =>
          value !== undefined && (
            <div key={term}>
              <dt>{term}</dt>
              <dd className="wrap numbers">{value}</dd>
            </div>
          ),
      )}
    </dl>
  );
}

/** Logo and name. */
export function Brand() {
  return (
    <span className="brand">
      <svg viewBox="0 0 32 32" aria-hidden="true">
        <rect width="32" height="32" rx="8" fill="#0f766e" />
        <path d="M8 10h16M16 10v13" fill="none" stroke="#fff" strokeWidth="2.4" strokeLinecap="round" />
      </svg>
      toolfleet
    </span>
  );
}
