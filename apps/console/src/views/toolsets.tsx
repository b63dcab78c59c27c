import type { JsonObject, ShownToolset, ToolCallError, ToolsetSummary } from '@toolfleet/client';
import { useState, type FormEvent } from 'react';
import { count, dateTime } from '../format.js';
import { toAddress } from '../router.js';
import { useSigned } from '../session.js';
import { Badge, Columns, ConfirmButton, Empty, ErrorNotice, Facts, Head, Labelled, Loaded } from '../ui/components.js';
import { useAction } from '../use-action.js';
import { asToolError, useQuery } from '../use-query.js';
import { TestRule } from './test-rule.js';

const EVERY_MS = 10_000;
const OUTLINE = { include: { tools: ['*'] } };

/** Selections of tools for agents: every toolset, or one with its spec and history. */
export function ToolsetsView({ item, detail }: { item: string | undefined; detail: string | undefined }) {
  return item === undefined ? <ToolsetList /> : <ToolsetDetail key={`${item} ${detail}`} id={item} version={detail} />;
}

function ToolsetList() {
  const { api, me } = useSigned();
  const query = useQuery('toolsets', api.toolsets, EVERY_MS);
  return (
    <>
      <Head
        title="Toolsets"
        about={`Selections of tools for agents ${me.operator ? 'of every tenant' : `of ${me.tenant_id}`}, served at /mcp/t/<name> and by ?toolset=<name>.`}
      >
        <button onClick={query.refresh}>Refresh</button>
      </Head>
      <section className="card">
        <Loaded query={query}>
          {(toolsets) =>
            toolsets.length === 0 ? (
              <Empty>No toolsets yet.</Empty>
            ) : (
              <table className="table">
                <caption className="visually-hidden">Toolsets</caption>
                <Columns names={['Toolset', 'Version', 'Changed', 'Description']} figures={['Version']} />
                <tbody>
                  {toolsets.map((toolset) => (
                    <ToolsetRow key={toolset.id} toolset={toolset} />
                  ))}
                </tbody>
              </table>
            )
          }
        </Loaded>
      </section>
      <NewToolset />
    </>
  );
}

function ToolsetRow({ toolset }: { toolset: ToolsetSummary }) {
  return (
    <tr>
      <td className="lead">
        <span className="stack tight">
          <a href={toAddress('toolsets', toolset.id)}>{toolset.name}</a>
          <span className="row">
            <Badge>{toolset.tenant === null ? 'all tenants' : `tenant ${toolset.tenant}`}</Badge>
            {toolset.quarantined.length > 0 && <Badge tone="warn">{count(toolset.quarantined.length)} hidden</Badge>}
          </span>
        </span>
      </td>
      <td data-label="Version" className="figure">
        {toolset.version}
      </td>
      <td data-label="Changed">
        {dateTime(toolset.created_at)} by {toolset.created_by}
      </td>
      <td data-label="Description" className="wrap">
        {toolset.description ?? '–'}
      </td>
    </tr>
  );
}

function NewToolset() {
  const { api, me } = useSigned();
  const [name, setName] = useState('');
  return (
    <section className="card stack" aria-labelledby="new-toolset">
      <h2 id="new-toolset">New toolset</h2>
      <Labelled label="Name">
        {(id) => (
          <input
            id={id}
            value={name}
            autoComplete="off"
            spellCheck={false}
            onChange={(event) => setName(event.target.value)}
          />
        )}
      </Labelled>
      <SpecForm
        initial={OUTLINE}
        label="Create"
        disabled={name.trim() === ''}
        save={async (spec) => {
          const { id } = await api.putToolset(`${name.trim()}@${me.tenant_id}`, spec);
          location.hash = toAddress('toolsets', id);
        }}
      />
    </section>
  );
}

function ToolsetDetail({ id, version }: { id: string; version: string | undefined }) {
  const { api } = useSigned();
  const query = useQuery(`toolset ${id} ${version}`, (signal) => api.toolset(id, version, signal));
  return (
    <>
      <p>
        <a href={toAddress('toolsets')}>All toolsets</a>
      </p>
      <Loaded query={query}>
        {(toolset) => (
          <Shown key={toolset.version} toolset={toolset} onChanged={query.refresh} isOld={version !== undefined} />
        )}
      </Loaded>
    </>
  );
}

function Shown({ toolset, onChanged, isOld }: { toolset: ShownToolset; onChanged: () => void; isOld: boolean }) {
  const { api, me } = useSigned();
  const mayChange = toolset.versions[0]?.origin !== 'config' && (toolset.tenant !== null || me.operator);
  const { error, act } = useAction(onChanged);
  const latest = () => (location.hash = toAddress('toolsets', toolset.id));
  return (
    <>
      <Head title={toolset.name} about={toolset.description ?? undefined}>
        <Badge>version {toolset.version}</Badge>
        {mayChange && (
          <ConfirmButton
            danger
            question={`Remove toolset ${toolset.name}?`}
            onConfirm={() =>
              void act(
                () => api.removeToolset(toolset.id),
                () => (location.hash = toAddress('toolsets')),
              )
            }
          >
            Remove
          </ConfirmButton>
        )}
      </Head>
      {error && <ErrorNotice error={error} />}
      {toolset.quarantined.map(({ name, reason, pending_revision: revision }) => (
        <div key={name} className="notice warn">
          <strong>{name} is hidden</strong>
          <span>Its override was written for another version of the definition: {reason}</span>
          {!isOld && (
            <span>
              <button onClick={() => void act(() => api.approveOverride(toolset.id, name, revision))}>
                Approve the override
              </button>
            </span>
          )}
        </div>
      ))}
      <section className="card stack" aria-labelledby="facts">
        <h2 id="facts">Properties</h2>
        <Facts
          facts={[
            ['Used by', toolset.tenant ?? 'all tenants'],
            ['Declared by', toolset.origin === 'config' ? 'configuration file' : 'API'],
            ['MCP', `/mcp/t/${toolset.name}${isOld ? `@${toolset.version}` : ''}`],
            ['Tools', toolset.tools?.join(', ') || '–'],
            ['Notes', toolset.notes.join('; ') || undefined],
          ]}
        />
      </section>
      <section className="card stack" aria-labelledby="spec">
        <h2 id="spec">Spec</h2>
        {mayChange && !isOld ? (
          <SpecForm
            initial={toolset.spec}
            label="Save as a new version"
            tested={{ name: toolset.name, tenant_id: toolset.tenant ?? undefined }}
            save={async (spec) => {
              await api.putToolset(toolset.id, spec);
              onChanged();
            }}
          />
        ) : (
          <pre tabIndex={0} aria-label="Spec">
            {JSON.stringify(toolset.spec, null, 2)}
          </pre>
        )}
      </section>
      <section className="card stack" aria-labelledby="versions">
        <h2 id="versions">Versions</h2>
        <ul className="stack tight">
          {toolset.versions.map(({ version, created_at: at, created_by: by, restores }, index) => (
            <li key={version} className="row">
              <a href={toAddress('toolsets', toolset.id, index === 0 ? undefined : String(version))}>
                Version {version}
              </a>
              <span className="small">
                {dateTime(at)} by {by}
                {restores !== undefined && `, restores version ${restores}`}
              </span>
              {index > 0 && mayChange && (
                <ConfirmButton
                  question={`Return to version ${version}?`}
                  onConfirm={() => void act(() => api.rollbackToolset(toolset.id, version), isOld ? latest : onChanged)}
                >
                  Return to it<span className="visually-hidden"> (version {version})</span>
                </ConfirmButton>
              )}
            </li>
          ))}
        </ul>
      </section>
    </>
  );
}

/** A spec as JSON. Errors of the gateway name the field. */
function SpecForm({
  initial,
  label,
  save,
  tested,
  disabled = false,
}: {
  initial: object;
  label: string;
  /** The toolset with recorded calls for tests of the spec. */
  tested?: { name: string; tenant_id: string | undefined };
  save: (spec: JsonObject) => Promise<void>;
  disabled?: boolean;
}) {
  const [text, setText] = useState(() => JSON.stringify(initial, null, 2));
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<ToolCallError>();
  const [invalid, setInvalid] = useState<string>();
  const read = (): JsonObject | undefined => {
    setInvalid(undefined);
    try {
      return JSON.parse(text) as JsonObject;
    } catch (thrown) {
      setInvalid((thrown as Error).message);
      return undefined;
    }
  };
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    setError(undefined);
    const spec = read();
    if (!spec) return;
    setBusy(true);
    try {
      await save(spec);
    } catch (thrown) {
      setError(asToolError(thrown));
    } finally {
      setBusy(false);
    }
  };
  return (
    <form className="stack" onSubmit={(event) => void submit(event)}>
      <Labelled label="Spec as JSON">
        {(id) => (
          <textarea
            id={id}
            rows={Math.min(24, text.split('\n').length + 1)}
            value={text}
            spellCheck={false}
            onChange={(event) => setText(event.target.value)}
          />
        )}
      </Labelled>
      {invalid !== undefined && (
        <div className="notice bad" role="alert">
          <strong>This is not JSON</strong>
          <span>{invalid}</span>
        </div>
      )}
      {error && <ErrorNotice error={error} />}
      <span>
        <button className="primary" disabled={busy || disabled}>
          {label}
        </button>
      </span>
      {tested && (
        <TestRule
          rule={() => {
            const spec = read();
            return spec && { toolset: { name: tested.name, spec }, tenant_id: tested.tenant_id };
          }}
        />
      )}
    </form>
  );
}
