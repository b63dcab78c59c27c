import type { SourceState, SourceStatus } from '@toolfleet/client';
import { count, dateTime } from '../format.js';
import { toAddress } from '../router.js';
import { useSigned } from '../session.js';
import { Badge, Columns, ConfirmButton, Empty, ErrorNotice, Facts, Head, Loaded, type Tone } from '../ui/components.js';
import { useAction } from '../use-action.js';
import { useQuery } from '../use-query.js';
import { AddSourceView } from './add-source.js';

const EVERY_MS = 10_000;
/** Item of the form; ids of sources have a slash. */
const ADD = 'add';

const STATES: Readonly<Record<SourceState, readonly [Tone, string]>> = {
  ok: ['good', 'ok'],
  pending: ['plain', 'not read yet'],
  failed: ['bad', 'last look failed'],
  auth_failed: ['bad', 'credential rejected'],
  refused: ['bad', 'entry refused'],
  unavailable: ['warn', 'no process'],
};

/** Where tools come from: every source, or one with its tools. */
export function SourcesView({ item }: { item: string | undefined }) {
  if (item === ADD) return <AddSourceView />;
  return item === undefined ? <SourceList /> : <SourceDetail key={item} id={item} />;
}

function SourceList() {
  const { api, me } = useSigned();
  const query = useQuery('sources', api.sources, EVERY_MS);
  return (
    <>
      <Head
        title="Sources"
        about={`Where the tools ${me.operator ? 'of every tenant' : `of ${me.tenant_id}`} come from, and when they were last read.`}
      >
        <a className="button primary" href={toAddress('sources', ADD)}>
          Add a source
        </a>
        <button onClick={query.refresh}>Refresh</button>
      </Head>
      <section className="card">
        <Loaded query={query}>
          {(sources) =>
            sources.length === 0 ? (
              <Empty>No sources of your own. Add one here, or with fleetctl sources add.</Empty>
            ) : (
              <table className="table">
                <caption className="visually-hidden">Sources of tools</caption>
                <Columns names={['Source', 'State', 'Tools', 'Last look', 'Next look']} figures={['Tools']} actions />
                <tbody>
                  {sources.map((source) => (
                    <SourceRow key={source.id} source={source} onChanged={query.refresh} />
                  ))}
                </tbody>
              </table>
            )
          }
        </Loaded>
      </section>
    </>
  );
}

function SourceRow({ source, onChanged }: { source: SourceStatus; onChanged: () => void }) {
  return (
    <tr>
      <td className="lead">
        <span className="stack tight">
          <a href={toAddress('sources', source.id)}>{source.name}</a>
          <span className="row">
            <Badge>{source.kind}</Badge>
            {source.tenant !== null && <Badge>tenant {source.tenant}</Badge>}
          </span>
        </span>
      </td>
      <td data-label="State">
        <span className="stack tight">
          <StateBadge state={source.state} />
          {source.last_error !== null && <span className="small clamp">{source.last_error}</span>}
        </span>
      </td>
      <td data-label="Tools" className="figure">
        {count(source.tool_count)}
        <Quarantined source={source} />
      </td>
      <td data-label="Last look">{lookText(source.last_look_at)}</td>
      <td data-label="Next look">{lookText(source.next_look_at)}</td>
      <td>
        <SourceActions source={source} onChanged={onChanged} onRemoved={onChanged} />
      </td>
    </tr>
  );
}

/** The MCP revision in use, and the one before it; undefined for other kinds of sources. */
const protocolText = ({ protocol_version: version, protocol_switch: change }: SourceStatus): string | undefined =>
  change ? `${version} (${change.from} until ${dateTime(change.at)})` : version;

const lookText = (at: string | null): string => (at === null ? '–' : dateTime(at));

function StateBadge({ state }: { state: SourceState }) {
  const [tone, text] = STATES[state];
  return (
    <span>
      <Badge tone={tone}>{text}</Badge>
    </span>
  );
}

function Quarantined({ source: { quarantined } }: { source: SourceStatus }) {
  if (quarantined.length === 0) return null;
  return (
    <>
      {' '}
      <a className="small" href={toAddress('quarantine')}>
        {count(quarantined.length)} quarantined
      </a>
    </>
  );
}

/** Looks at a source now, and removes one that was registered at run time. */
function SourceActions({
  source: { id, name, kind, origin, tool_count: tools },
  onChanged,
  onRemoved,
}: {
  source: SourceStatus;
  onChanged: () => void;
  onRemoved: () => void;
}) {
  const { api } = useSigned();
  const { busy, error, act } = useAction();
  return (
    <span className="stack tight">
      <span className="row">
        {(kind === 'mcp' || kind === 'openapi') && (
          <button className="compact" disabled={busy} onClick={() => void act(() => api.refreshSource(id), onChanged)}>
            {busy ? 'Looking…' : 'Look now'}
            <span className="visually-hidden"> at {name}</span>
          </button>
        )}
        {origin === 'api' && (
          <ConfirmButton
            danger
            disabled={busy}
            question={`Remove ${name} and its ${count(tools)} tools?`}
            onConfirm={() => void act(() => api.removeSource(id), onRemoved)}
          >
            Remove<span className="visually-hidden"> {name}</span>
          </ConfirmButton>
        )}
      </span>
      {error && <ErrorNotice error={error} />}
    </span>
  );
}

function SourceDetail({ id }: { id: string }) {
  const { api } = useSigned();
  const query = useQuery(`source ${id}`, (signal) => api.source(id, signal), EVERY_MS);
  return (
    <>
      <p>
        <a href={toAddress('sources')}>All sources</a>
      </p>
      <Loaded query={query}>
        {(source) => (
          <>
            <Head title={source.name} about={source.location ?? undefined}>
              <StateBadge state={source.state} />
              <SourceActions
                source={source}
                onChanged={query.refresh}
                onRemoved={() => (location.hash = toAddress('sources'))}
              />
            </Head>
            {source.last_error !== null && (
              <div className="notice bad">
                <strong>{source.state === 'refused' ? 'Its entry is refused' : 'The last look failed'}</strong>
                <span>{source.last_error}</span>
              </div>
            )}
            <section className="card stack" aria-labelledby="facts">
              <h2 id="facts">Properties</h2>
              <Facts
                facts={[
                  ['Kind', source.kind],
                  ['Tenant', source.tenant ?? 'all'],
                  [
                    'Declared by',
                    { config: 'configuration file', api: 'registration', executor: 'executor' }[source.origin],
                  ],
                  ['Last look', lookText(source.last_look_at)],
                  ['Last success', lookText(source.last_success_at)],
                  ['Next look', lookText(source.next_look_at)],
                  ['MCP revision', protocolText(source)],
                ]}
              />
            </section>
            <Tools source={source} />
            <Remarks title="Refused tools" lines={source.refused?.map(({ name, message }) => `${name}: ${message}`)} />
            <Remarks title="Notes" lines={source.notes} />
          </>
        )}
      </Loaded>
    </>
  );
}

function Tools({ source: { tools = [], quarantined } }: { source: SourceStatus }) {
  const held = new Map(quarantined.map(({ name, reason }) => [name, reason]));
  return (
    <section className="card stack" aria-labelledby="tools">
      <h2 id="tools">Tools</h2>
      {tools.length === 0 ? (
        <Empty>It has no tools.</Empty>
      ) : (
        <ul className="stack tight">
          {tools.map((name) => (
            <li key={name} className="row">
              <a href={toAddress('tools', name)}>{name}</a>
              {held.has(name) && (
                <>
                  <Badge tone="warn">quarantined</Badge>
                  <a className="small" href={toAddress('quarantine')}>
                    {held.get(name)}
                  </a>
                </>
              )}
            </li>
          ))}
        </ul>
      )}
    </section>
  );
}

function Remarks({ title, lines = [] }: { title: string; lines?: readonly string[] | undefined }) {
  if (lines.length === 0) return null;
  return (
    <section className="card stack" aria-label={title}>
      <h2>{title}</h2>
      <ul className="stack tight">
        {lines.map((line) => (
          <li key={line} className="small wrap">
            {line}
          </li>
        ))}
      </ul>
    </section>
  );
}
