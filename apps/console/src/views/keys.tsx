import type { ApiKey, Me } from '@toolfleet/client';
import { useSigned } from '../session.js';
import { dateTime } from '../format.js';
import { Badge, Columns, ConfirmButton, Empty, ErrorNotice, Head, Loaded } from '../ui/components.js';
import { useAction } from '../use-action.js';
import { useQuery } from '../use-query.js';
import { NewKeyForm } from './new-key-form.js';
import { Roles } from './roles.js';
import { Sessions } from './sessions.js';

/** Who has access: the caller's keys and sign-ins; with rights, the tenant's with its roles; for operators, keys of every tenant. */
export function KeysView() {
  const { api, me } = useSigned();
  const query = useQuery('keys', api.keys);
  const { error, act } = useAction(query.refresh);
  return (
    <>
      <Head
        title="Users and keys"
        about={`${me.operator ? 'Of every tenant' : managesKeys(me) ? `Of ${me.tenant_id}` : 'Your own'}. A revoked key or an ended sign-in is refused within 5 seconds.`}
      >
        <button onClick={query.refresh}>Refresh</button>
      </Head>
      <NewKeyForm onCreated={query.refresh} />
      {error && <ErrorNotice error={error} />}
      <section className="card stack" aria-labelledby="keys">
        <h2 id="keys">API keys</h2>
        <Loaded query={query}>
          {(keys) =>
            keys.length === 0 ? (
              <Empty>No keys yet.</Empty>
            ) : (
              <table className="table">
                <Columns names={['Client', 'Tenant', 'User', 'Roles', 'Tools', 'Last used', 'State']} actions />
                <tbody>
                  {keys.toSorted(newestFirst).map((key) => (
                    <KeyRow key={key.id} apiKey={key} onRevoke={() => void act(() => api.revokeKey(key.id))} />
                  ))}
                </tbody>
              </table>
            )
          }
        </Loaded>
      </section>
      <Sessions />
      {managesKeys(me) && <Roles />}
    </>
  );
}

/** Whether a caller manages the keys of its tenant, not only its own. */
const managesKeys = ({ rights }: Me): boolean => rights.includes('manage_keys');

const newestFirst = (a: ApiKey, b: ApiKey): number => (a.created_at < b.created_at ? 1 : -1);

function KeyRow({ apiKey: key, onRevoke }: { apiKey: ApiKey; onRevoke: () => void }) {
  const { me } = useSigned();
  const expired = key.expires_at !== null && Date.parse(key.expires_at) <= Date.now();
  const live = key.revoked_at === null && !expired;
  return (
    <tr>
      <td className="lead">
        <span>
          <strong>{key.client}</strong> <code className="soft">{key.id}</code>
        </span>
      </td>
      <td data-label="Tenant">{key.tenant_id}</td>
      <td data-label="User">
        {key.user_id} {key.is_service_account && <Badge>service</Badge>}
        {key.person.user_id !== key.user_id && <span className="small soft"> made by {key.person.user_id}</span>}
      </td>
      <td data-label="Roles">{key.roles.join(', ') || 'none'}</td>
      <td data-label="Tools">
        <code>{key.tools.join(' ')}</code>
        {key.mcp_mode !== null && <span className="small soft"> MCP: {key.mcp_mode}</span>}
      </td>
      <td data-label="Last used">{key.last_used_at === null ? 'never' : dateTime(key.last_used_at)}</td>
      <td data-label="State">
        {live ? <Badge tone="good">live</Badge> : <Badge tone="bad">{expired ? 'expired' : 'revoked'}</Badge>}
        {live && key.expires_at !== null && <span className="small soft"> until {dateTime(key.expires_at)}</span>}
      </td>
      <td>
        {live &&
          (key.id === me.key_id ? (
            <span className="small soft">in use here</span>
          ) : (
            <ConfirmButton danger question={`Revoke the key of ${key.client}?`} onConfirm={onRevoke}>
              Revoke<span className="visually-hidden"> the key {key.id}</span>
            </ConfirmButton>
          ))}
      </td>
    </tr>
  );
}
