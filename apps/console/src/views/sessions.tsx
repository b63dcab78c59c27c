import type { UserSession } from '@toolfleet/client';
import { dateTime } from '../format.js';
import { useSigned } from '../session.js';
import { Badge, Columns, ConfirmButton, Empty, ErrorNotice, Loaded } from '../ui/components.js';
import { useAction } from '../use-action.js';
import { useQuery } from '../use-query.js';

/** Who is signed in: people with their roles and groups, in browsers and in MCP clients that they connected. */
export function Sessions() {
  const { api } = useSigned();
  const query = useQuery('sessions', api.sessions);
  const { error, act } = useAction(query.refresh);
  return (
    <section className="card stack" aria-labelledby="sessions">
      <h2 id="sessions">Signed-in users</h2>
      {error && <ErrorNotice error={error} />}
      <Loaded query={query}>
        {(sessions) =>
          sessions.length === 0 ? (
            <Empty>No user is signed in.</Empty>
          ) : (
            <table className="table">
              <Columns names={['User', 'In', 'Roles', 'Groups', 'Since', 'Until']} actions />
              <tbody>
                {sessions.map((session) => (
                  <SessionRow
                    key={session.id}
                    session={session}
                    onEnd={() => void act(() => api.endSession(session.id))}
                  />
                ))}
              </tbody>
            </table>
          )
        }
      </Loaded>
    </section>
  );
}

function SessionRow({ session, onEnd }: { session: UserSession; onEnd: () => void }) {
  const { client } = session;
  return (
    <tr>
      <td className="lead">
        <strong>{session.user_id}</strong>
      </td>
      <td data-label="In">{client === null ? 'browser' : (client.name ?? client.id)}</td>
      <td data-label="Roles">{session.roles.length === 0 ? <Badge>member</Badge> : session.roles.join(', ')}</td>
      <td data-label="Groups">{session.groups.join(', ') || 'none'}</td>
      <td data-label="Since">{dateTime(session.created_at)}</td>
      <td data-label="Until">{dateTime(session.expires_at)}</td>
      <td>
        {session.current ? (
          <span className="small soft">in use here</span>
        ) : (
          <ConfirmButton danger question={`End this session of ${session.user_id}?`} onConfirm={onEnd}>
            End<span className="visually-hidden"> the session of {session.user_id}</span>
          </ConfirmButton>
        )}
      </td>
    </tr>
  );
}
