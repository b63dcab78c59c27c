import type { SourceState, SourceStatus } from '@toolfleet/client';
import { SOURCE_TIMEOUT_MS, toSourcePath } from '../api/client.js';
import { useRoute } from '../api/queries.js';
import { count, dateTime } from '../format.js';
import { toAddress } from '../router.js';
import { useSigned } from '../session.js';
import { ActionButton, Back, Badge, Card, Empty, Facts, Head, Loaded, Notice, type Tone } from '../ui/components.js';
import { RouteTable, type TableColumn } from '../ui/table.js';
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

const COLUMNS: readonly TableColumn<SourceStatus>[] = [
  {
    head: 'Source',
    kind: 'lead',
    cell: ({ id, name, kind, tenant }) => (
      <span className="stack tight">
        <a href={toAddress('sources', id)}>{name}</a>
        <span className="row">
          <Badge>{kind}</Badge>
          {tenant !== null && <Badge>tenant {tenant}</Badge>}
        </span>
      </span>
    ),
  },
  {
    head: 'State',
    cell: ({ state, last_error: error }) => (
      <span className="stack tight">
        <StateBadge state={state} />
        {error !== null && <span className="small clamp">{error}</span>}
      </span>
    ),
  },
  {
    head: 'Tools',
    kind: 'figure',
    cell: (source) => count(source.tool_count),
    note: ({ quarantined: { length } }) =>
      length > 0 && <a href={toAddress('quarantine')}>{count(length)} quarantined</a>,
  },
  { head: 'Last look', cell: ({ last_look_at: at }) => lookText(at) },
  { head: 'Next look', cell: ({ next_look_at: at }) => lookText(at) },
];

function SourceList() {
  const { me } = useSigned();
  const about = `Where the tools ${me.operator ? 'of every tenant' : `of ${me.tenant_id}`} come from, and when they were last read.`;
  return (
    <>
      <Head title="Sources" about={about} refreshes>
        <a className="button primary" href={toAddress('sources', ADD)}>
          Add a source
        </a>
      </Head>
      <RouteTable
        route="GET /api/v1/sources"
        everyMs={EVERY_MS}
        caption="Sources of tools"
        empty="No sources of your own. Add one here, or with fleetctl sources add."
        rowKey={({ id }) => id}
        columns={COLUMNS}
        actions={(source) => <SourceActions source={source} />}
      />
    </>
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

/** Looks at a source now, and removes one that was registered at run time. */
function SourceActions({ source, onRemoved }: { source: SourceStatus; onRemoved?: () => void }) {
  const { id, name, kind, origin, tool_count: tools } = source;
  const { api } = useSigned();
  const path = toSourcePath(id);
  // A refresh that failed is reported in its answer.
  const look = { ...path, timeoutMs: SOURCE_TIMEOUT_MS };
  return (
    <span className="row">
      {(kind === 'mcp' || kind === 'openapi') && (
        <ActionButton
          className="compact"
          busyText="Looking…"
          hidden={`at ${name}`}
          work={() => api.request('POST /api/v1/sources/{kind}/{name}/refresh', look)}
        >
          Look now
        </ActionButton>
      )}
      {origin === 'api' && (
        <ActionButton
          danger
          hidden={name}
          question={`Remove ${name} and its ${count(tools)} tools?`}
          work={() => api.request('DELETE /api/v1/sources/{kind}/{name}', path).then(onRemoved)}
        >
          Remove
        </ActionButton>
      )}
    </span>
  );
}

function SourceDetail({ id }: { id: string }) {
  const query = useRoute('GET /api/v1/sources/{kind}/{name}', toSourcePath(id), { everyMs: EVERY_MS });
  return (
    <>
      <Back to={toAddress('sources')}>All sources</Back>
      <Loaded query={query}>
        {(source) => (
          <>
            <Head title={source.name} about={source.location ?? undefined}>
              <StateBadge state={source.state} />
              <SourceActions source={source} onRemoved={() => (location.hash = toAddress('sources'))} />
            </Head>
            {source.last_error !== null && (
              <Notice tone="bad" title={source.state === 'refused' ? 'Its entry is refused' : 'The last look failed'}>
                <span>{source.last_error}</span>
              </Notice>
            )}
            <Card title="Properties">
              <Facts
                facts={[
                  ['Kind', source.kind],
                  ['Tenant', source.tenant ?? 'all'],
                  ['Declared by', DECLARED_BY[source.origin]],
                  ['Last look', lookText(source.last_look_at)],
                  ['Last success', lookText(source.last_success_at)],
                  ['Next look', lookText(source.next_look_at)],
                  ['MCP revision', protocolText(source)],
                ]}
              />
            </Card>
            <Tools source={source} />
            <Remarks title="Refused tools" lines={source.refused?.map(({ name, message }) => `${name}: ${message}`)} />
            <Remarks title="Notes" lines={source.notes} />
          </>
        )}
      </Loaded>
    </>
  );
}

const DECLARED_BY = { config: 'configuration file', api: 'registration', executor: 'executor' } as const;

function Tools({ source: { tools = [], quarantined } }: { source: SourceStatus }) {
  const held = new Map(quarantined.map(({ name, reason }) => [name, reason]));
  return (
    <Card title="Tools">
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
    </Card>
  );
}

function Remarks({ title, lines = [] }: { title: string; lines?: readonly string[] | undefined }) {
  if (lines.length === 0) return null;
  return (
    <Card title={title}>
      <ul className="stack tight">
        {lines.map((line) => (
          <li key={line} className="small wrap">
            {line}
          </li>
        ))}
      </ul>
    </Card>
  );
}
