import { ToolCallError, type RouteAnswer, type SourceInspection } from '@toolfleet/client';
import { useState } from 'react';
import { count } from '../format.js';
import { toAddress } from '../router.js';
import { useSigned } from '../session.js';
import { Badge, Empty, ErrorNotice, Head, Labelled } from '../ui/components.js';
import { useAction } from '../use-action.js';
import { isAddress, registrationOf, suggestName } from './source-registration.js';

/** Services read the file of allowed origins every second. */
const ALLOWED_WITHIN_MS = 10_000;
const AGAIN_MS = 500;
const pause = () => new Promise((resolve) => setTimeout(resolve, AGAIN_MS));

type Added = Partial<RouteAnswer<'POST /api/v1/sources/openapi'> & RouteAnswer<'POST /api/v1/sources/mcp'>> & {
  message: string;
};

/** Adds an OpenAPI document or an MCP server: inspection, allowed origins, its name, and a first call. */
export function AddSourceView() {
  const { api } = useSigned();
  const [place, setPlace] = useState('');
  const [found, setFound] = useState<{ place: string; inspection: SourceInspection }>();
  const { busy, error, act } = useAction();
  const inspect = async () => {
    setFound(undefined);
    await act(async () => setFound({ place, inspection: await api.inspectSource(place) }));
  };
  /** Until the services have noticed that the origins are allowed. */
  const allow = (origins: string[]) =>
    act(async () => {
      await api.allowOrigins(origins);
      for (const until = performance.now() + ALLOWED_WITHIN_MS; ; await pause()) {
        const inspection = await api.inspectSource(place);
        setFound({ place, inspection });
        if (inspection.blocked.length === 0 || performance.now() > until) return;
      }
    });
  return (
    <>
      <p>
        <a href={toAddress('sources')}>All sources</a>
      </p>
      <Head title="Add a source" about="An OpenAPI document or an MCP server. Its operations become tools." />
      <section className="card stack" aria-label="Where it is">
        <form
          className="stack"
          onSubmit={(event) => {
            event.preventDefault();
            void inspect();
          }}
        >
          <Labelled label="URL, or the text of an OpenAPI document">
            {(id) => (
              <textarea
                id={id}
                rows={isAddress(place) || place === '' ? 2 : 12}
                spellCheck={false}
                placeholder="https://api.example.com/openapi.json"
                value={place}
                onChange={(event) => setPlace(event.target.value)}
              />
            )}
          </Labelled>
          <span>
            <button type="submit" className="primary" disabled={busy || place.trim() === ''}>
              {busy ? 'Looking…' : 'Inspect'}
            </button>
          </span>
        </form>
        {error && <ErrorNotice error={error} />}
      </section>
      {found && <Found inspection={found.inspection} busy={busy} onAllow={(origins) => void allow(origins)} />}
      {found && found.inspection.kind !== null && found.inspection.blocked.length === 0 && (
        <Register key={found.place} place={found.place} inspection={found.inspection} />
      )}
    </>
  );
}

function Found({
  inspection: { kind, tools, tool_count: total, needs_credential: asks, faults, notes, blocked },
  busy,
  onAllow,
}: {
  inspection: SourceInspection;
  busy: boolean;
  onAllow: (origins: string[]) => void;
}) {
  const { me } = useSigned();
  const what = { openapi: 'OpenAPI document', mcp: 'MCP server' };
  return (
    <section className="card stack" aria-labelledby="found">
      <h2 id="found">
        {kind === null ? 'No source found' : `${what[kind]}${asks ? '' : ` with ${count(total)} tools`}`}
      </h2>
      {asks && <p>It asks for a credential before it shows its tools. Send one with the registration.</p>}
      {blocked.length > 0 && (
        <div className="notice warn" role="alert">
          <strong>The fleet may not connect to {blocked.join(', ')}</strong>
          <span>Tools reach no private address, and nothing over plain http, unless somebody allows it.</span>
          {me.operator ? (
            <span>
              <button disabled={busy} onClick={() => onAllow(blocked)}>
                Allow {blocked.join(', ')}
              </button>
            </span>
          ) : (
            <span>Ask an operator of the fleet.</span>
          )}
        </div>
      )}
      {tools.length > 0 && (
        <ul className="stack tight">
          {tools.map(({ name, description }) => (
            <li key={name}>
              <code>{name}</code> <span className="small soft">{description.split('\n')[0]}</span>
            </li>
          ))}
          {total > tools.length && <li className="small soft">and {count(total - tools.length)} more</li>}
        </ul>
      )}
      {faults.map((fault) => (
        <span key={fault} className="small wrap">
          <Badge tone="bad">fault</Badge> {fault}
        </span>
      ))}
      {notes.map((note) => (
        <span key={note} className="small wrap">
          <Badge>note</Badge> {note}
        </span>
      ))}
    </section>
  );
}

function Register({ place, inspection }: { place: string; inspection: SourceInspection }) {
  const { api } = useSigned();
  const [name, setName] = useState(suggestName(place));
  const [prefix, setPrefix] = useState<string>();
  const [credential, setCredential] = useState('');
  const [added, setAdded] = useState<Added>();
  const { busy, error, act } = useAction();
  if (inspection.kind === null) return null;
  const { kind } = inspection;
  const register = () =>
    act(async () => {
      const body = registrationOf(place, kind, { name, prefix: prefix ?? name, credential });
      for (const until = performance.now() + ALLOWED_WITHIN_MS; ; await pause())
        try {
          return setAdded(await api.registerSource(kind, body));
        } catch (thrown) {
          // An executor may not have noticed the new origin yet.
          const isEarly = thrown instanceof ToolCallError && thrown.message.includes('egress guard');
          if (!isEarly || performance.now() > until) throw thrown;
        }
    });
  if (added) return <Result added={added} />;
  return (
    <section className="card stack" aria-labelledby="register">
      <h2 id="register">Add it</h2>
      <form
        className="stack"
        onSubmit={(event) => {
          event.preventDefault();
          void register();
        }}
      >
        <div className="cards">
          <Labelled label="Name">
            {(id) => <input id={id} value={name} onChange={(event) => setName(event.target.value)} />}
          </Labelled>
          <Labelled label="Prefix of its tools">
            {(id) => <input id={id} value={prefix ?? name} onChange={(event) => setPrefix(event.target.value)} />}
          </Labelled>
          <Labelled label="Authorization header">
            {(id) => (
              <input
                id={id}
                type="password"
                autoComplete="off"
                placeholder="none, or Bearer …"
                value={credential}
                onChange={(event) => setCredential(event.target.value)}
              />
            )}
          </Labelled>
        </div>
        <span>
          <button type="submit" className="primary" disabled={busy || name.trim() === ''}>
            {busy ? 'Adding…' : 'Add source'}
          </button>
        </span>
      </form>
      {error && <ErrorNotice error={error} />}
    </section>
  );
}

/** The registration, and a link to a first call. */
function Result({
  added: { message, registered, operations_registered: operations, quarantined = [], refused = [] },
}: {
  added: Added;
}) {
  const held = new Set(quarantined.map(({ name }) => name));
  const tools = operations ?? registered ?? [];
  const first = tools.find((name) => !held.has(name));
  return (
    <section className="card stack" aria-labelledby="added" role="status">
      <h2 id="added">{message}</h2>
      {first === undefined ? (
        <Empty>No tool can be called yet.</Empty>
      ) : (
        <p>
          First call: <a href={toAddress('tools', first)}>{first}</a>
        </p>
      )}
      {quarantined.map(({ name, reason }) => (
        <span key={name} className="small wrap">
          <Badge tone="warn">quarantined</Badge> <a href={toAddress('quarantine')}>{name}</a>: {reason}
        </span>
      ))}
      {refused.map(({ name, message: why }) => (
        <span key={name} className="small wrap">
          <Badge tone="bad">refused</Badge> {name}: {why}
        </span>
      ))}
    </section>
  );
}
