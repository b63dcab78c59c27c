import type { Connection } from '@toolfleet/client';
import { useEffect, useState, type FormEvent, type ReactNode } from 'react';
import { dateTime } from '../format.js';
import { replacePlace, toAddress, usePlace } from '../router.js';
import { connectReturnUrl, takeReturn, useSigned } from '../session.js';
import { Badge, ConfirmButton, Empty, ErrorNotice, Head, Labelled, Loaded, Search } from '../ui/components.js';
import { useAction } from '../use-action.js';
import { useQuery } from '../use-query.js';

/**
 * Accounts of the user at sources with tools that act as the calling user. Links in errors lead to `#/connections/<source>?link=<mark>`; the
 * gateway refuses a mark that was made for another user.
 */
export function ConnectionsView({ item }: { item: string | undefined }) {
  const { api, me } = useSigned();
  const link = usePlace().filter['link'];
  const [user, setUser] = useState('');
  const [connected, setConnected] = useState<string>();
  const other = user.trim() === '' || user.trim() === me.user_id ? undefined : user.trim();
  const query = useQuery(`connections ${other ?? ''}`, (signal) => api.connections(other, signal));
  const { error, act } = useAction(query.refresh);
  const run = (work: () => Promise<unknown>) => {
    setConnected(undefined);
    return act(work);
  };
  useEffect(() => {
    const back = takeReturn();
    if (back !== undefined) void run(async () => setConnected((await api.finishConnection(back)).source));
    // Once, when the browser comes back.
  }, []);
  const done = (source: string) => {
    setConnected(source);
    // The mark is of no use any more.
    replacePlace(toAddress('connections'));
  };
  return (
    <>
      <Head
        title="Connections"
        about={`Services at which tools act ${other === undefined ? `as ${me.user_id || 'you'}` : `as ${other}`}, with personal accounts.`}
      >
        <button onClick={query.refresh}>Refresh</button>
      </Head>
      {me.rights.includes('manage_keys') && (
        <Search label="User" value={user} placeholder={me.user_id} onChange={setUser} />
      )}
      {error && <ErrorNotice error={error} />}
      {connected !== undefined && (
        <div className="notice good" role="status">
          <strong>{connected} is connected</strong>
          <span>Tools of it act with your account now. You can go back to where you came from.</span>
        </div>
      )}
      <Loaded query={query}>
        {(connections) => (
          <ConnectionList
            connections={connections}
            chosen={item}
            render={(connection) => (
              <ConnectionCard
                key={connection.source}
                connection={connection}
                isOwn={other === undefined}
                link={connection.source === item ? link : undefined}
                run={run}
                onConnected={done}
                onDisconnect={() => void run(() => api.disconnect(connection.source, other))}
              />
            )}
          />
        )}
      </Loaded>
    </>
  );
}

/** The source of a link first. */
function ConnectionList({
  connections,
  chosen,
  render,
}: {
  connections: readonly Connection[];
  chosen: string | undefined;
  render: (connection: Connection) => ReactNode;
}) {
  if (connections.length === 0) return <Empty>No source acts as its users.</Empty>;
  const isMissing = chosen !== undefined && !connections.some(({ source }) => source === chosen);
  return (
    <>
      {isMissing && <Empty>{chosen} does not act as its users, or you may not use its tools.</Empty>}
      {connections.toSorted((a, b) => Number(b.source === chosen) - Number(a.source === chosen)).map(render)}
    </>
  );
}

function ConnectionCard({
  connection: { source, mode, connected, reason, help, scopes, connected_at: since },
  isOwn,
  link,
  run,
  onConnected,
  onDisconnect,
}: {
  connection: Connection;
  isOwn: boolean;
  link: string | undefined;
  run: (work: () => Promise<unknown>) => Promise<void>;
  onConnected: (source: string) => void;
  onDisconnect: () => void;
}) {
  const { api } = useSigned();
  const signIn = () =>
    run(async () => {
      const redirectUri = connectReturnUrl(source);
      location.assign((await api.authorizeConnection(source, redirectUri, link)).authorization_url);
    });
  const putKey = (key: string) => run(() => api.putConnection(source, key, link).then(() => onConnected(source)));
  return (
    <section className="card stack" aria-labelledby={`connection-${source}`}>
      <div className="row">
        <h2 id={`connection-${source}`}>{source}</h2>
        {connected ? (
          <Badge tone="good">connected</Badge>
        ) : mode === 'api_key' || mode === 'connect' || reason !== undefined ? (
          <Badge tone="warn">not connected</Badge>
        ) : (
          <Badge>not used yet</Badge>
        )}
      </div>
      {since !== undefined && <span className="small soft">since {dateTime(since)}</span>}
      {scopes && scopes.length > 0 && <span className="small soft">{scopes.join(' ')}</span>}
      {reason !== undefined && <span>{reason}</span>}
      {isOwn && mode === 'connect' && (
        <span>
          <button className={connected ? undefined : 'primary'} onClick={() => void signIn()}>
            {connected ? 'Connect again' : 'Connect'}
            <span className="visually-hidden"> {source}</span>
          </button>
        </span>
      )}
      {(mode === 'exchange' || mode === 'id_jag') && (
        <span className="small soft">It acts with your sign-in; there is nothing to connect.</span>
      )}
      {isOwn && mode === 'api_key' && <KeyForm source={source} help={help} onKey={putKey} />}
      {since !== undefined && (
        <span>
          <ConfirmButton danger question={`Disconnect ${source}?`} onConfirm={onDisconnect}>
            Disconnect<span className="visually-hidden"> {source}</span>
          </ConfirmButton>
        </span>
      )}
    </section>
  );
}

/** Takes a personal key. It is sent once and shown nowhere. */
function KeyForm({
  source,
  help,
  onKey,
}: {
  source: string;
  help: string | undefined;
  onKey: (key: string) => Promise<void>;
}) {
  const [key, setKey] = useState('');
  const submit = (event: FormEvent) => {
    event.preventDefault();
    setKey('');
    void onKey(key.trim());
  };
  return (
    <form className="stack tight" onSubmit={submit}>
      {help !== undefined && <span className="small">{help}</span>}
      <Labelled label={`Your key for ${source}`}>
        {(id) => (
          <input
            id={id}
            type="password"
            autoComplete="off"
            spellCheck={false}
            value={key}
            onChange={(event) => setKey(event.target.value)}
          />
        )}
      </Labelled>
      <span>
        <button className="primary" disabled={key.trim() === ''}>
          Save key
        </button>
      </span>
    </form>
  );
}
