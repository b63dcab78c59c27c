import type { ApiKey, Me, RouteAnswer, UserSession } from '@toolfleet/client';
import { useState } from 'react';
import { dateTime } from '../format.js';
import { RouteForm } from '../schema/route-form.js';
import { useSigned } from '../session.js';
import { ActionButton, Badge, Card, Head, NewSecret } from '../ui/components.js';
import { RouteTable, type TableColumn } from '../ui/table.js';

/** Who has access: the caller's keys and sign-ins; with rights, the tenant's with its roles; for operators, keys of every tenant. */
export function KeysView() {
  const { me } = useSigned();
  const scope = me.operator ? 'Of every tenant' : managesKeys(me) ? `Of ${me.tenant_id}` : 'Your own';
  return (
    <>
      <Head
        title="Users and keys"
        about={`${scope}. A revoked key or an ended sign-in is refused within 5 seconds.`}
        refreshes
      />
      <NewKeyCard />
      <Keys />
      <Sessions />
      {managesKeys(me) && <Roles />}
    </>
  );
}

/** Whether a caller manages the keys of its tenant, not only its own. */
const managesKeys = ({ rights }: Me): boolean => rights.includes('manage_keys');

const DAY_SECONDS = 86_400;

/** Members of a new key that the caller may choose. */
const toMembers = (me: Me) =>
  ({
    client: { placeholder: 'what will use it' },
    tenant_id: me.operator && { placeholder: me.tenant_id, help: '' },
    service_account: managesKeys(me) && { placeholder: 'none: for yourself', help: '' },
    user_id: me.rights.includes('mint_for_users') && {
      placeholder: me.operator ? 'as the client' : me.user_id,
      help: '',
    },
    roles: { placeholder: 'none' },
    note: { placeholder: 'none', help: '' },
    tools: { placeholder: '* for all, or names with *', help: '' },
    toolset: { placeholder: 'none: every tool above', help: '' },
    projects: { placeholder: 'none', help: '' },
    tier: me.operator && { label: 'Rate class', placeholder: 'free, pro, max, enterprise' },
    mcp_mode: {
      label: 'MCP shows',
      help: '',
      unset: 'as the client asks',
      choices: [
        ['list', 'every tool'],
        ['search', 'search and call'],
        ['code', 'search, describe, run programs'],
      ],
    },
    expires_in_seconds: {
      label: 'Lives',
      help: '',
      unset: 'until it is revoked',
      initial: 90 * DAY_SECONDS,
      choices: [
        [30 * DAY_SECONDS, '30 days'],
        [90 * DAY_SECONDS, '90 days'],
        [365 * DAY_SECONDS, 'a year'],
      ],
    },
  }) as const;

/** Creates a key and shows its secret once. */
function NewKeyCard() {
  const { me } = useSigned();
  const [made, setMade] = useState<RouteAnswer<'POST /api/v1/keys'>>();
  return (
    <Card title="New key">
      <RouteForm route="POST /api/v1/keys" members={toMembers(me)} submit="Make key" onDone={setMade} />
      {made && (
        <NewSecret title={`Key of ${made.client}`} secret={made.token}>
          <button onClick={() => setMade(undefined)}>Done</button>
          {made.warnings.map((warning) => (
            <span key={warning}>Warning: {warning}</span>
          ))}
        </NewSecret>
      )}
    </Card>
  );
}

const isExpired = ({ expires_at: at }: ApiKey): boolean => at !== null && Date.parse(at) <= Date.now();
const isLive = (key: ApiKey): boolean => key.revoked_at === null && !isExpired(key);

const KEY_COLUMNS: readonly TableColumn<ApiKey>[] = [
  {
    head: 'Client',
    kind: 'lead',
    cell: (key) => <strong>{key.client}</strong>,
    note: ({ id, note }) => [<code key="id">{id}</code>, note && ` ${note}`],
  },
  { head: 'Tenant', cell: (key) => key.tenant_id },
  {
    head: 'User',
    cell: (key) => [key.user_id, ' ', key.is_service_account && <Badge key="service">service</Badge>],
    note: ({ person, user_id: user }) => person.user_id !== user && `made by ${person.user_id}`,
  },
  { head: 'Roles', cell: (key) => key.roles.join(', ') || 'none' },
  {
    head: 'Tools',
    cell: (key) => <code>{key.tools.join(' ')}</code>,
    note: ({ toolset, mcp_mode: mode }) =>
      [toolset && `Toolset: ${toolset}`, mode && `MCP: ${mode}`].filter(Boolean).join(', '),
  },
  { head: 'Last used', cell: (key) => (key.last_used_at === null ? 'never' : dateTime(key.last_used_at)) },
  {
    head: 'State',
    cell: (key) =>
      isLive(key) ? (
        <Badge tone="good">live</Badge>
      ) : (
        <Badge tone="bad">{isExpired(key) ? 'expired' : 'revoked'}</Badge>
      ),
    note: (key) => isLive(key) && key.expires_at && `until ${dateTime(key.expires_at)}`,
  },
];

function Keys() {
  const { api, me } = useSigned();
  const revoke = ({ id }: ApiKey) => api.request('DELETE /api/v1/keys/{id}', { path: { id } });
  return (
    <RouteTable
      route="GET /api/v1/keys"
      title="API keys"
      empty="No keys yet."
      order={(one, other) => (one.created_at < other.created_at ? 1 : -1)}
      rowKey={({ id }) => id}
      columns={KEY_COLUMNS}
      actions={(key) =>
        isLive(key) &&
        (key.id === me.key_id ? (
          <InUse />
        ) : (
          <ActionButton
            danger
            hidden={`the key ${key.id}`}
            question={`Revoke the key of ${key.client}?`}
            work={() => revoke(key)}
          >
            Revoke
          </ActionButton>
        ))
      }
    />
  );
}

const InUse = () => <span className="small soft">in use here</span>;

/** Who is signed in: people with their roles and groups, in browsers and in MCP clients that they connected. */
function Sessions() {
  const { api } = useSigned();
  const end = ({ id }: UserSession) => api.request('DELETE /api/v1/sessions/{id}', { path: { id } });
  return (
    <RouteTable
      route="GET /api/v1/sessions"
      title="Signed-in users"
      empty="No user is signed in."
      rowKey={({ id }) => id}
      columns={[
        { head: 'User', kind: 'lead', cell: (session) => <strong>{session.user_id}</strong> },
        { head: 'In', cell: ({ client }) => (client === null ? 'browser' : (client.name ?? client.id)) },
        { head: 'Roles', cell: ({ roles }) => (roles.length === 0 ? <Badge>member</Badge> : roles.join(', ')) },
        { head: 'Groups', cell: ({ groups }) => groups.join(', ') || 'none' },
        { head: 'Since', cell: (session) => dateTime(session.created_at) },
        { head: 'Until', cell: (session) => dateTime(session.expires_at) },
      ]}
      actions={(session) =>
        session.current ? (
          <InUse />
        ) : (
          <ActionButton
            danger
            hidden={`the session of ${session.user_id}`}
            question={`End this session of ${session.user_id}?`}
            work={() => end(session)}
          >
            End
          </ActionButton>
        )
      }
    />
  );
}

/** Roles of keys and signed-in users, with their rights and the groups that give them. */
const Roles = () => (
  <RouteTable
    route="GET /api/v1/roles"
    title="Roles"
    rowKey={({ name }) => name}
    columns={[
      {
        head: 'Role',
        kind: 'lead',
        cell: ({ name }) => <strong>{name}</strong>,
        note: ({ declared }) => declared === 'config' && <Badge>configuration file</Badge>,
      },
      { head: 'Rights', cell: ({ rights }) => rights.join(', ') || 'none' },
      { head: 'Groups with it', cell: ({ groups }) => groups.join(', ') || 'none' },
    ]}
  />
);
