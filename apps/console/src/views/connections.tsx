import type { Connection, ToolCallError } from '@toolfleet/client';
import { useEffect, useState } from 'react';
import { SOURCE_TIMEOUT_MS, toSourcePath } from '../api/client.js';
import { useAction, useRoute } from '../api/queries.js';
import { dateTime } from '../format.js';
import { replacePlace, toAddress, usePlace } from '../router.js';
import { RouteForm } from '../schema/route-form.js';
import { connectReturnUrl, takeReturn, useSigned } from '../session.js';
import { ActionButton, Badge, Empty, ErrorNotice, Head, Loaded, Notice, TextInput } from '../ui/components.js';

/**
 * Accounts of the user at sources with tools that act as the calling user. Links in errors lead to `#/connections/<source>?link=<mark>`; the
 * gateway refuses a mark that was made for another user.
 */
export function ConnectionsView({ item }: { item: string | undefined }) {
  const { me } = useSigned();
  const link = usePlace().filter['link'];
  const [user, setUser] = useState('');
  const [connected, setConnected] = useState<string>();
  const error = useFinishedSignIn(setConnected);
  const other = user.trim() === '' || user.trim() === me.user_id ? undefined : user.trim();
  const query = useRoute('GET /api/v1/connections', { query: { user_id: other } });
  const done = (source: string) => {
    setConnected(source);
    // The mark is of no use any more.
    replacePlace(toAddress('connections'));
  };
  const isConnected = query.data?.find(({ source }) => source === connected)?.connected !== false;
  return (
    <>
      <Head
        title="Connections"
        about={`Services at which tools act ${other === undefined ? `as ${me.user_id || 'you'}` : `as ${other}`}, with personal accounts.`}
        refreshes
      />
      {me.rights.includes('manage_keys') && (
        <TextInput type="search" label="User" value={user} placeholder={me.user_id} onChange={setUser} />
      )}
      <ErrorNotice error={error} />
      {connected !== undefined && isConnected && (
        <Notice tone="good" role="status" title={`${connected} is connected`}>
          <span>Tools of it act with your account now. You can go back to where you came from.</span>
        </Notice>
      )}
      <Loaded query={query}>
        {(connections) => (
          <>
            <WhyNone connections={connections} chosen={item} />
            {/* The source of a link first. */}
            {connections
              .toSorted((a, b) => Number(b.source === item) - Number(a.source === item))
              .map((connection) => (
                <ConnectionCard
                  key={connection.source}
                  connection={connection}
                  user={other}
                  link={connection.source === item ? link : undefined}
                  onConnected={done}
                />
              ))}
          </>
        )}
      </Loaded>
    </>
  );
}

/** Finishes the sign-in that the browser comes back from, once; returns why it failed. */
function useFinishedSignIn(onConnected: (source: string) => void): ToolCallError | undefined {
  const { api } = useSigned();
  const { error, act } = useAction();
  useEffect(() => {
    const body = takeReturn();
    if (body === undefined) return;
    const request = api.request('POST /api/v1/connections/finish', { body, timeoutMs: SOURCE_TIMEOUT_MS });
    void act(() => request.then(({ source }) => onConnected(source)));
  }, []);
  return error;
}

function WhyNone({ connections, chosen }: { connections: readonly Connection[]; chosen: string | undefined }) {
  if (connections.length === 0) return <Empty>No source acts as its users.</Empty>;
  if (chosen === undefined || connections.some(({ source }) => source === chosen)) return null;
  return <Empty>{chosen} does not act as its users, or you may not use its tools.</Empty>;
}

interface ConnectionProps {
  connection: Connection;
  /** The user of the account, unless it is the caller. */
  user: string | undefined;
  link: string | undefined;
  onConnected: (source: string) => void;
}

/** How the caller connects its account: by a sign-in or a key. Users connect only their own accounts. */
function WayToConnect({ connection: { source, mode, connected, help }, user, link, onConnected }: ConnectionProps) {
  const { api } = useSigned();
  const { path } = toSourcePath(source);
  if (mode === 'exchange' || mode === 'id_jag')
    return <span className="small soft">It acts with your sign-in; there is nothing to connect.</span>;
  if (user !== undefined) return null;
  if (mode === 'api_key')
    // The key is sent once and shown nowhere.
    return (
      <RouteForm
        route="PUT /api/v1/connections/{kind}/{name}"
        request={{ path, body: { link } }}
        members={{ api_key: { label: `Your key for ${source}`, help: help ?? '', secret: true } }}
        submit="Save key"
        onDone={() => onConnected(source)}
      />
    );
  const signIn = async () => {
    const { authorization_url: url } = await api.request('POST /api/v1/connections/{kind}/{name}/authorize', {
      path,
      body: { redirect_uri: connectReturnUrl(source), link },
      timeoutMs: SOURCE_TIMEOUT_MS,
    });
    location.assign(url);
  };
  return (
    <span>
      <ActionButton className={connected ? undefined : 'primary'} hidden={source} work={signIn}>
        {connected ? 'Connect again' : 'Connect'}
      </ActionButton>
    </span>
  );
}

function ConnectionCard({ connection, user, link, onConnected }: ConnectionProps) {
  const { api } = useSigned();
  const { source, reason, scopes = [], connected_at: since } = connection;
  const { path } = toSourcePath(source);
  const disconnect = () => api.request('DELETE /api/v1/connections/{kind}/{name}', { path, query: { user_id: user } });
  return (
    <section className="card stack" aria-labelledby={`connection-${source}`}>
      <div className="row">
        <h2 id={`connection-${source}`}>{source}</h2>
        <ConnectionState connection={connection} />
      </div>
      {since !== undefined && <span className="small soft">since {dateTime(since)}</span>}
      {scopes.length > 0 && <span className="small soft">{scopes.join(' ')}</span>}
      {reason !== undefined && <span>{reason}</span>}
      <WayToConnect connection={connection} user={user} link={link} onConnected={onConnected} />
      {since !== undefined && (
        <span>
          <ActionButton danger hidden={source} question={`Disconnect ${source}?`} work={disconnect}>
            Disconnect
          </ActionButton>
        </span>
      )}
    </section>
  );
}

function ConnectionState({ connection: { connected, mode, reason } }: { connection: Connection }) {
  if (connected) return <Badge tone="good">connected</Badge>;
  if (mode === 'api_key' || mode === 'connect' || reason !== undefined) return <Badge tone="warn">not connected</Badge>;
  return <Badge>not used yet</Badge>;
}
