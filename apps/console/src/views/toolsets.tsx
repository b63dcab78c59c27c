import type { JsonObject, ShownToolset } from '@toolfleet/client';
import { useState } from 'react';
import { toToolsetPath } from '../api/client.js';
import { useRoute } from '../api/queries.js';
import { count, dateTime, pretty } from '../format.js';
import { toAddress } from '../router.js';
import { readJson } from '../schema/form.js';
import { useSigned } from '../session.js';
import {
  ActionButton,
  ActionForm,
  Back,
  Badge,
  Card,
  Facts,
  Head,
  Loaded,
  Notice,
  TextArea,
  TextInput,
  Verbatim,
} from '../ui/components.js';
import { RouteTable } from '../ui/table.js';
import { TestRule } from './test-rule.js';

const EVERY_MS = 10_000;
const OUTLINE = { include: { tools: ['*'] } };

/** Selections of tools for agents: every toolset, or one with its spec and history. */
export function ToolsetsView({ item, detail }: { item: string | undefined; detail: string | undefined }) {
  return item === undefined ? <ToolsetList /> : <ToolsetDetail key={`${item} ${detail}`} id={item} version={detail} />;
}

function ToolsetList() {
  const { me } = useSigned();
  const whose = me.operator ? 'of every tenant' : `of ${me.tenant_id}`;
  const about = `Selections of tools for agents ${whose}, served at /mcp/t/<name> and by ?toolset=<name>.`;
  return (
    <>
      <Head title="Toolsets" about={about} refreshes />
      <RouteTable
        route="GET /api/v1/toolsets"
        everyMs={EVERY_MS}
        caption="Toolsets"
        empty="No toolsets yet."
        rowKey={({ id }) => id}
        columns={[
          {
            head: 'Toolset',
            kind: 'lead',
            cell: ({ id, name, tenant, quarantined }) => (
              <span className="stack tight">
                <a href={toAddress('toolsets', id)}>{name}</a>
                <span className="row">
                  <Badge>{tenant === null ? 'all tenants' : `tenant ${tenant}`}</Badge>
                  {quarantined.length > 0 && <Badge tone="warn">{count(quarantined.length)} hidden</Badge>}
                </span>
              </span>
            ),
          },
          { head: 'Version', kind: 'figure', cell: ({ version }) => version },
          { head: 'Changed', cell: ({ created_at: at, created_by: by }) => `${dateTime(at)} by ${by}` },
          { head: 'Description', className: 'wrap', cell: ({ description }) => description ?? '–' },
        ]}
      />
      <NewToolset />
    </>
  );
}

function NewToolset() {
  const { api, me } = useSigned();
  const [name, setName] = useState('');
  const create = async (body: JsonObject) => {
    const path = { name: `${name.trim()}@${me.tenant_id}` };
    const { id } = await api.request('PUT /api/v1/toolsets/{name}', { path, body });
    location.hash = toAddress('toolsets', id);
  };
  return (
    <Card title="New toolset">
      <TextInput label="Name" value={name} onChange={setName} />
      <SpecForm initial={OUTLINE} label="Create" disabled={name.trim() === ''} save={create} />
    </Card>
  );
}

function ToolsetDetail({ id, version }: { id: string; version: string | undefined }) {
  const { path, query } = toToolsetPath(id);
  const number = version === undefined ? undefined : Number(version);
  const toolset = useRoute('GET /api/v1/toolsets/{name}', { path, query: { ...query, version: number } });
  return (
    <>
      <Back to={toAddress('toolsets')}>All toolsets</Back>
      <Loaded query={toolset}>
        {(shown) => <Toolset key={shown.version} toolset={shown} isOld={version !== undefined} />}
      </Loaded>
    </>
  );
}

function Toolset({ toolset, isOld }: { toolset: ShownToolset; isOld: boolean }) {
  const { api, me } = useSigned();
  const path = toToolsetPath(toolset.id);
  const mayChange = toolset.versions[0]?.origin !== 'config' && (toolset.tenant !== null || me.operator);
  const remove = async () => {
    await api.request('DELETE /api/v1/toolsets/{name}', path);
    location.hash = toAddress('toolsets');
  };
  return (
    <>
      <Head title={toolset.name} about={toolset.description ?? undefined}>
        <Badge>version {toolset.version}</Badge>
        {mayChange && (
          <ActionButton danger question={`Remove toolset ${toolset.name}?`} work={remove}>
            Remove
          </ActionButton>
        )}
      </Head>
      <HiddenTools toolset={toolset} isOld={isOld} />
      <Card title="Properties">
        <Facts
          facts={[
            ['Used by', toolset.tenant ?? 'all tenants'],
            ['Declared by', toolset.origin === 'config' ? 'configuration file' : 'API'],
            ['MCP', `/mcp/t/${toolset.name}${isOld ? `@${toolset.version}` : ''}`],
            ['Tools', toolset.tools?.join(', ') || '–'],
            ['Notes', toolset.notes.join('; ') || undefined],
          ]}
        />
      </Card>
      <Card title="Spec">
        {mayChange && !isOld ? (
          <SpecForm
            initial={toolset.spec}
            label="Save as a new version"
            tested={{ name: toolset.name, tenant_id: toolset.tenant ?? undefined }}
            save={(body) => api.request('PUT /api/v1/toolsets/{name}', { ...path, body })}
          />
        ) : (
          <Verbatim label="Spec" text={pretty(toolset.spec)} />
        )}
      </Card>
      <Versions toolset={toolset} mayChange={mayChange} isOld={isOld} />
    </>
  );
}

/** Tools that are hidden until their overrides are approved. */
function HiddenTools({ toolset: { id, quarantined }, isOld }: { toolset: ShownToolset; isOld: boolean }) {
  const { api } = useSigned();
  const path = toToolsetPath(id);
  return quarantined.map(({ name: tool, reason, pending_revision }) => (
    <Notice key={tool} tone="warn" title={`${tool} is hidden`}>
      <span>Its override was written for another version of the definition: {reason}</span>
      {!isOld && (
        <span>
          <ActionButton
            work={() =>
              api.request('POST /api/v1/toolsets/{name}/approve', { ...path, body: { tool, pending_revision } })
            }
          >
            Approve the override
          </ActionButton>
        </span>
      )}
    </Notice>
  ));
}

function Versions(props: { toolset: ShownToolset; mayChange: boolean; isOld: boolean }) {
  const { toolset, mayChange, isOld } = props;
  const { api } = useSigned();
  const restore = async (version: number) => {
    await api.request('POST /api/v1/toolsets/{name}/rollback', { ...toToolsetPath(toolset.id), body: { version } });
    if (isOld) location.hash = toAddress('toolsets', toolset.id);
  };
  return (
    <Card title="Versions">
      <ul className="stack tight">
        {toolset.versions.map(({ version, created_at: at, created_by: by, restores }, index) => (
          <li key={version} className="row">
            <a href={toAddress('toolsets', toolset.id, index === 0 ? undefined : String(version))}>Version {version}</a>
            <span className="small">
              {dateTime(at)} by {by}
              {restores !== undefined && `, restores version ${restores}`}
            </span>
            {index > 0 && mayChange && (
              <ActionButton
                hidden={`(version ${version})`}
                question={`Return to version ${version}?`}
                work={() => restore(version)}
              >
                Return to it
              </ActionButton>
            )}
          </li>
        ))}
      </ul>
    </Card>
  );
}

interface SpecFormProps {
  initial: object;
  label: string;
  save: (spec: JsonObject) => Promise<unknown>;
  /** The toolset with recorded calls for tests of the spec. */
  tested?: { name: string; tenant_id: string | undefined };
  disabled?: boolean;
}

/** A spec as JSON. Errors of the gateway name the field. */
function SpecForm({ initial, label, save, tested, disabled }: SpecFormProps) {
  const [text, setText] = useState(() => pretty(initial));
  const [fault, setFault] = useState<string>();
  const read = (): JsonObject | undefined => {
    const reading = readJson(text);
    setFault('faults' in reading ? reading.faults[''] : undefined);
    return 'faults' in reading ? undefined : reading.arguments;
  };
  const submit = async () => {
    const spec = read();
    if (spec) await save(spec);
  };
  const toRule = () => {
    const spec = tested && read();
    return spec && { toolset: { name: tested.name, spec }, tenant_id: tested.tenant_id };
  };
  return (
    <>
      <ActionForm submit={label} disabled={disabled} work={submit}>
        <TextArea
          label="Spec as JSON"
          rows={Math.min(24, text.split('\n').length + 1)}
          value={text}
          onChange={setText}
        />
        {fault !== undefined && (
          <Notice tone="bad" role="alert" title="This is not JSON">
            <span>It {fault}</span>
          </Notice>
        )}
      </ActionForm>
      {tested && <TestRule rule={toRule} />}
    </>
  );
}
