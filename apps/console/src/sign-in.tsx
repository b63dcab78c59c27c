import type { Me } from '@toolfleet/client';
import { useEffect, useRef, useState, type FormEvent } from 'react';
import { createClient } from './api/client.js';
import { asToolError } from './api/queries.js';
import { goToProvider, storedKey, storeKey } from './session.js';
import { Brand } from './ui/components.js';

type OnSignedIn = (key: string | undefined, me: Me) => void;

/**
 * Signs in by a key, or by the session of the browser. A key stored before a reload is tried first, then the session.
 * @param resumes take up the session that the browser has
 */
function useSignIn(resumes: boolean, onSignedIn: OnSignedIn) {
  const [busy, setBusy] = useState(() => storedKey() !== undefined);
  const [fault, setFault] = useState<string>();
  /** Name of the provider; undefined while there is none. */
  const [provider, setProvider] = useState<string>();
  const isFirst = useRef(true);

  const prove = async (key: string) => {
    setBusy(true);
    setFault(undefined);
    try {
      onSignedIn(key, await createClient(key).request('GET /api/v1/me', {}));
    } catch (thrown) {
      const error = asToolError(thrown);
      setFault(error.status === 401 ? `This key is not accepted: ${error.message}` : error.message);
      if (error.status === 401) storeKey(undefined);
      setBusy(false);
    }
  };
  const resume = async () => {
    const api = createClient(undefined);
    try {
      const { available, name } = await api.request('GET /api/v1/sign-in', {});
      if (!available) return;
      setProvider(name ?? 'your provider');
      if (resumes) onSignedIn(undefined, await api.request('GET /api/v1/me', {}));
    } catch (thrown) {
      const error = asToolError(thrown);
      // 401: this browser has no session.
      if (error.status !== 401) setFault(error.message);
    }
  };
  useEffect(() => {
    const kept = isFirst.current ? storedKey() : undefined;
    isFirst.current = false;
    if (kept !== undefined) void prove(kept);
    else void resume();
    // Once, when the page opens.
  }, []);
  return { busy, fault, setFault, provider, prove };
}

/** Offers the sign-in at the company's provider, and asks for a key and checks it. */
export function SignIn({
  message,
  resumes,
  onSignedIn,
}: {
  message: string | undefined;
  resumes: boolean;
  onSignedIn: OnSignedIn;
}) {
  const { busy, fault, setFault, provider, prove } = useSignIn(resumes, onSignedIn);
  const [key, setKey] = useState('');
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (key.trim() === '') setFault('Enter a key.');
    else void prove(key.trim());
  };
  return (
    <main className="sign-in">
      <form className="card" onSubmit={submit} noValidate>
        <Brand />
        <div className="stack tight">
          <h1>Sign in</h1>
          <p className="soft">
            {provider === undefined ? 'With' : `At ${provider}, or with`} an API key or a token of your identity
            provider. It stays in this tab.
          </p>
        </div>
        {provider !== undefined && (
          <button type="button" className="primary" onClick={goToProvider}>
            Sign in with {provider}
          </button>
        )}
        <div className="field">
          <label htmlFor="key">API key</label>
          <input
            id="key"
            type="password"
            autoComplete="off"
            spellCheck={false}
            value={key}
            onChange={(event) => setKey(event.target.value)}
            aria-invalid={fault !== undefined}
            aria-describedby="sign-in-fault"
          />
          <p id="sign-in-fault" className="fault" role="alert">
            {fault ?? message}
          </p>
        </div>
        <button className={provider === undefined ? 'primary' : undefined} disabled={busy}>
          {busy ? 'Checking…' : provider === undefined ? 'Sign in' : 'Sign in with a key'}
        </button>
      </form>
    </main>
  );
}
