import { ToolCallError, type RouteAnswer, type SourceInspection } from '@toolfleet/client';
import { useState } from 'react';
import { SOURCE_TIMEOUT_MS } from '../api/client.js';
import { count } from '../format.js';
import { toAddress } from '../router.js';
import { useSigned } from '../session.js';
import {
  ActionButton,
  ActionForm,
  Back,
  Badge,
  Card,
  Empty,
  Head,
  Notice,
  TextArea,
  TextInput,
} from '../ui/components.js';
import { isAddress, suggestName, toPlace, toRegistration } from './source-registration.js';

/** Services read the file of allowed origins every second. */
const ALLOWED_WITHIN_MS = 10_000;
const AGAIN_MS = 500;
const pause = () => new Promise((resolve) => setTimeout(resolve, AGAIN_MS));

type Added = Partial<RouteAnswer<'POST /api/v1/sources/openapi'> & RouteAnswer<'POST /api/v1/sources/mcp'>> & {
  message: string;
};
/** A place with the result of its inspection. */
interface Inspected {
  place: string;
  inspection: SourceInspection;
}

/** Adds an OpenAPI document or an MCP server: inspection, allowed origins, its name, and a first call. */
export function AddSourceView() {
  const { api } = useSigned();
  const [place, setPlace] = useState('');
  const [found, setFound] = useState<Inspected>();
  /** Registers nothing. */
  const inspect = async (): Promise<SourceInspection> => {
    const inspection = await api.request('POST /api/v1/sources/inspect', {
      body: toPlace(place),
      timeoutMs: SOURCE_TIMEOUT_MS,
    });
    setFound({ place, inspection });
    return inspection;
  };
  return (
    <>
      <Back to={toAddress('sources')}>All sources</Back>
      <Head title="Add a source" about="An OpenAPI document or an MCP server. Its operations become tools." />
      <Card label="Where it is">
        <ActionForm
          submit="Inspect"
          busyText="Looking…"
          disabled={place.trim() === ''}
          work={() => {
            setFound(undefined);
            return inspect();
          }}
        >
          <TextArea
            label="URL, or the text of an OpenAPI document"
            rows={isAddress(place) || place === '' ? 2 : 12}
            placeholder="https://api.example.com/openapi.json"
            value={place}
            onChange={setPlace}
          />
        </ActionForm>
      </Card>
      {found && <Found inspection={found.inspection} onInspect={inspect} />}
      {found && found.inspection.kind !== null && found.inspection.blocked.length === 0 && (
        <Register key={found.place} {...found} kind={found.inspection.kind} />
      )}
    </>
  );
}

interface FoundProps {
  inspection: SourceInspection;
  onInspect: () => Promise<SourceInspection>;
}

function Found({ inspection, onInspect }: FoundProps) {
  const { kind, tools, tool_count: total, needs_credential: asks, faults, notes, blocked } = inspection;
  const what = { openapi: 'OpenAPI document', mcp: 'MCP server' };
  return (
    <Card title={kind === null ? 'No source found' : `${what[kind]}${asks ? '' : ` with ${count(total)} tools`}`}>
      {asks && <p>It asks for a credential before it shows its tools. Send one with the registration.</p>}
      {blocked.length > 0 && <Blocked inspection={inspection} onInspect={onInspect} />}
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
    </Card>
  );
}

/** Origins that the fleet may not connect to. An operator can allow them, in a fleet that `npm start` runs. */
function Blocked({ inspection: { blocked }, onInspect }: FoundProps) {
  const { api, me } = useSigned();
  /** Until the services have noticed that the origins are allowed. */
  const allow = async () => {
    await api.request('POST /api/v1/sources/allow', { body: { origins: blocked } });
    for (const until = performance.now() + ALLOWED_WITHIN_MS; ; await pause())
      if ((await onInspect()).blocked.length === 0 || performance.now() > until) return;
  };
  return (
    <Notice tone="warn" role="alert" title={`The fleet may not connect to ${blocked.join(', ')}`}>
      <span>Tools reach no private address, and nothing over plain http, unless somebody allows it.</span>
      <span>
        {me.operator ? (
          <ActionButton work={allow}>Allow {blocked.join(', ')}</ActionButton>
        ) : (
          'Ask an operator of the fleet.'
        )}
      </span>
    </Notice>
  );
}

function Register({ place, kind }: { place: string; kind: 'openapi' | 'mcp' }) {
  const { api } = useSigned();
  const [name, setName] = useState(suggestName(place));
  const [prefix, setPrefix] = useState<string>();
  const [credential, setCredential] = useState('');
  const [added, setAdded] = useState<Added>();
  const register = async () => {
    const body = toRegistration(place, kind, { name, prefix: prefix ?? name, credential });
    for (const until = performance.now() + ALLOWED_WITHIN_MS; ; await pause())
      try {
        return setAdded(await api.request(`POST /api/v1/sources/${kind}`, { body, timeoutMs: SOURCE_TIMEOUT_MS }));
      } catch (thrown) {
        // An executor may not have noticed the new origin yet.
        const isEarly = thrown instanceof ToolCallError && thrown.message.includes('egress guard');
        if (!isEarly || performance.now() > until) throw thrown;
      }
  };
  if (added) return <Result added={added} />;
  return (
    <Card title="Add it">
      <ActionForm submit="Add source" busyText="Adding…" disabled={name.trim() === ''} work={register}>
        <div className="cards">
          <TextInput label="Name" value={name} onChange={setName} />
          <TextInput label="Prefix of its tools" value={prefix ?? name} onChange={setPrefix} />
          <TextInput
            label="Authorization header"
            type="password"
            placeholder="none, or Bearer …"
            value={credential}
            onChange={setCredential}
          />
        </div>
      </ActionForm>
    </Card>
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
