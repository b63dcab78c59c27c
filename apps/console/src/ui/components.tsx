import type { ToolCallError } from '@toolfleet/client';
import { useId, useRef, useState, type ComponentProps, type FormEvent, type ReactNode } from 'react';
import { useAction, useRefresh, type Loading } from '../api/queries.js';
import { duration } from '../format.js';
import { CopyButton } from './copy-button.js';

export type Tone = 'plain' | 'good' | 'warn' | 'bad' | 'accent';

/** A short label. Its text carries the meaning without the color. */
export function Badge({ tone = 'plain', children }: { tone?: Tone; children: ReactNode }) {
  return <span className={tone === 'plain' ? 'badge' : `badge ${tone}`}>{children}</span>;
}

/** Leads to the list that a view belongs to. */
export const Back = ({ to, children }: { to: string; children: ReactNode }) => (
  <p>
    <a href={to}>{children}</a>
  </p>
);

interface HeadProps {
  title: ReactNode;
  about?: ReactNode;
  /** One of the actions loads everything on the page again. */
  refreshes?: boolean;
  children?: ReactNode;
}

/** Title of a view, its description, and actions for the whole view. */
export function Head({ title, about, refreshes, children }: HeadProps) {
  const refresh = useRefresh();
  return (
    <header className="head">
      <div>
        <h1>{title}</h1>
        {about !== undefined && <p className="soft">{about}</p>}
      </div>
      <div className="row">
        {children}
        {refreshes && <button onClick={refresh}>Refresh</button>}
      </div>
    </header>
  );
}

/** A section with its title, named by `label` if there is one. `aside` stands next to the title. */
export function Card(props: { title?: ReactNode; label?: string; aside?: ReactNode; children?: ReactNode }) {
  const { title, label, aside, children } = props;
  const id = useId();
  const heading = title !== undefined && (
    <h2 id={id} className="wrap">
      {title}
    </h2>
  );
  return (
    <section className="card stack" aria-labelledby={heading && !label ? id : undefined} aria-label={label}>
      {aside === undefined ? heading : <Spread aside={aside}>{heading}</Spread>}
      {children}
    </section>
  );
}

/** A title with something at the other end of its line. */
export const Spread = ({ children, aside }: { children: ReactNode; aside: ReactNode }) => (
  <div className="row spread">
    {children}
    {aside}
  </div>
);

interface NoticeProps {
  tone?: 'good' | 'warn' | 'bad' | undefined;
  title: ReactNode;
  role?: 'alert' | 'status';
  children?: ReactNode;
}

/** A notice with its message. */
export const Notice = ({ tone, title, role, children }: NoticeProps) => (
  <div className={tone ? `notice ${tone}` : 'notice'} role={role}>
    <strong>{title}</strong>
    {children}
  </div>
);

/** An error with its hint; nothing without an error. */
export function ErrorNotice({ error, onRetry }: { error: ToolCallError | undefined; onRetry?: () => void }) {
  if (!error) return null;
  const { code, message, hint, retryAfterMs, callId } = error;
  const isDenied = code === 'PERMISSION_DENIED';
  return (
    <Notice tone="bad" role="alert" title={isDenied ? 'Your key may not do this' : message}>
      {isDenied && <span>{message}</span>}
      {hint !== undefined && <span>{hint}</span>}
      <span className="small soft">
        {code}
        {retryAfterMs !== undefined && ` · again in ${duration(retryAfterMs)}`}
        {callId !== undefined && ` · call ${callId}`}
      </span>
      {onRetry && <span>{<button onClick={onRetry}>Try again</button>}</span>}
    </Notice>
  );
}

/** Renders loaded data, or that it is loading, or its error. */
export function Loaded<T>({ query, children }: { query: Loading<T>; children: (data: T) => ReactNode }) {
  const { data, error, refresh } = query;
  const waits = !error && <Empty role="status">Loading…</Empty>;
  return (
    <>
      <ErrorNotice error={error} onRetry={refresh} />
      {data === undefined ? waits : children(data)}
    </>
  );
}

/** Explains why there is nothing to show. */
export const Empty = ({ children, role }: { children: ReactNode; role?: 'status' }) => (
  <p className="empty" role={role}>
    {children}
  </p>
);

/** A long text with its line breaks. */
export const Verbatim = ({ label, text }: { label: string; text: string }) => (
  <pre tabIndex={0} aria-label={label}>
    {text}
  </pre>
);

/** A text with its title, and a button that copies it. */
export const Snippet = ({ title, text, copies }: { title: string; text: string; copies?: boolean }) => (
  <div className="stack tight">
    <Spread aside={copies && <CopyButton text={text} />}>
      <h3>{title}</h3>
    </Spread>
    <Verbatim label={title} text={text} />
  </div>
);

/** Text that only screen readers read: the rest of the name of a link or button. */
export const Hidden = ({ children }: { children: ReactNode }) => <span className="visually-hidden"> {children}</span>;

/** Items that wait, as a mark in the navigation; nothing without any. */
export const WaitingMark = ({ count: waiting }: { count: number | undefined }) =>
  waiting ? (
    <Badge tone="warn">
      {waiting}
      <Hidden>waiting</Hidden>
    </Badge>
  ) : null;

/** A secret that is shown once. */
export const NewSecret = ({ title, secret, children }: { title: string; secret: string; children?: ReactNode }) => (
  <Notice tone="good" role="status" title={title}>
    <span>Copy it now: it is shown this once and stored nowhere.</span>
    <code className="wrap" data-testid="secret">
      {secret}
    </code>
    <span className="row">
      <CopyButton text={secret} />
      {children}
    </span>
  </Notice>
);

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

/** A control of a text, with other attributes of its element. */
type TextProps<E extends 'input' | 'textarea'> = Omit<ComponentProps<E>, 'value' | 'onChange'> & {
  label: string;
  value: string;
  onChange: (value: string) => void;
};

/** An input of one line with its label. */
export const TextInput = ({ label, onChange, ...rest }: TextProps<'input'>) => (
  <Labelled label={label}>
    {(id) => (
      <input
        autoComplete="off"
        spellCheck={false}
        {...rest}
        id={id}
        onChange={({ target }) => onChange(target.value)}
      />
    )}
  </Labelled>
);

/** An input of several lines with its label. */
export const TextArea = ({ label, onChange, ...rest }: TextProps<'textarea'>) => (
  <Labelled label={label}>
    {(id) => <textarea spellCheck={false} {...rest} id={id} onChange={({ target }) => onChange(target.value)} />}
  </Labelled>
);

interface ChoiceProps<T extends string> {
  label: string;
  value: T;
  options: readonly (readonly [value: T, text: string])[];
  onChange: (value: T) => void;
}

/** A select with text options. */
export const Choice = <T extends string>({ label, value, options, onChange }: ChoiceProps<T>) => (
  <Labelled label={label}>
    {(id) => (
      <select id={id} value={value} onChange={({ target }) => onChange(target.value as T)}>
        {options.map(([option, text]) => (
          <option key={option} value={option}>
            {text}
          </option>
        ))}
      </select>
    )}
  </Labelled>
);

/** Switches between a few views of the same data. */
export const Segments = <T extends string>({ label, value, options, onChange }: ChoiceProps<T>) => (
  <span className="segments" role="group" aria-label={label}>
    {options.map(([option, text]) => (
      <button key={option} type="button" aria-pressed={option === value} onClick={() => onChange(option)}>
        {text}
      </button>
    ))}
  </span>
);

interface ActionFormProps {
  submit: string;
  busyText?: string;
  disabled?: boolean;
  work: () => Promise<unknown>;
  children: ReactNode | ((error: ToolCallError | undefined) => ReactNode);
}

/** A form with a button that runs `work`, and the error of its last run. */
export function ActionForm({ submit, busyText = submit, disabled = false, work, children }: ActionFormProps) {
  const { busy, error, act } = useAction();
  const onSubmit = (event: FormEvent) => {
    event.preventDefault();
    void act(work);
  };
  return (
    <form className="stack" onSubmit={onSubmit} noValidate>
      {typeof children === 'function' ? children(error) : children}
      <ErrorNotice error={error} />
      <span>
        <button className="primary" disabled={busy || disabled}>
          {busy ? busyText : submit}
        </button>
      </span>
    </form>
  );
}

interface ActionProps {
  work: () => Promise<unknown>;
  /** Asked before the work. */
  question?: string;
  /** The rest of its name, for screen readers. */
  hidden?: string;
  busyText?: string;
  danger?: boolean;
  disabled?: boolean;
  className?: string | undefined;
  children: ReactNode;
}

/** A button that runs `work`, and shows its error. Keyboard focus returns to it from its question. */
export function ActionButton({ work, question, hidden, busyText, danger, disabled, className, children }: ActionProps) {
  const { busy, error, act } = useAction();
  const [asking, setAsking] = useState(false);
  const wasAsked = useRef(false);
  const takeFocus = (button: HTMLButtonElement | null) => {
    if (button && wasAsked.current) button.focus();
    if (button) wasAsked.current = false;
  };
  const press = () => {
    wasAsked.current = question !== undefined;
    if (question === undefined) void act(work);
    else setAsking(true);
  };
  const answer = (yes: boolean) => {
    setAsking(false);
    if (yes) void act(work);
  };
  if (asking) return <Question question={question!} danger={danger} onAnswer={answer} />;
  const style = danger ? 'danger' : className;
  return (
    <>
      <button type="button" className={style} disabled={busy || disabled} ref={takeFocus} onClick={press}>
        {busy && busyText !== undefined ? busyText : children}
        {hidden !== undefined && <Hidden>{hidden}</Hidden>}
      </button>
      <ErrorNotice error={error} />
    </>
  );
}

interface QuestionProps {
  question: string;
  danger: boolean | undefined;
  onAnswer: (yes: boolean) => void;
}

const Question = ({ question, danger, onAnswer }: QuestionProps) => (
  <span
    className="row"
    role="group"
    aria-label={question}
    onKeyDown={(event) => event.key === 'Escape' && onAnswer(false)}
  >
    <span className="small">{question}</span>
    <button type="button" autoFocus className={danger ? 'danger' : 'primary'} onClick={() => onAnswer(true)}>
      Yes
    </button>
    <button type="button" onClick={() => onAnswer(false)}>
      No
    </button>
  </span>
);

type Fact = readonly [term: string, value: string | undefined];

/** A list of terms and values without the undefined ones. `narrow` is for short figures. */
export const Facts = ({ facts, narrow }: { facts: readonly Fact[]; narrow?: boolean }) => (
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

/** Logo and name. */
export const Brand = () => (
  <span className="brand">
    <svg viewBox="0 0 32 32" aria-hidden="true">
      <rect width="32" height="32" rx="8" fill="#0f766e" />
      <path d="M8 10h16M16 10v13" fill="none" stroke="#fff" strokeWidth="2.4" strokeLinecap="round" />
    </svg>
    toolfleet
  </span>
);
