import { useEffect, useRef, useState, type FormEvent } from 'react';
import { ConsoleApi } from './api/console-api.js';
import type { Me } from '@toolfleet/client';
import { goToProvider, storedKey, storeKey } from './session.js';
import { Brand } from './ui/components.js';
import { asToolError } from './use-query.js';

/**
 * Offers the sign-in at the company's provider, and asks for a key and checks it. A key stored before a reload is tried first, then the
 * session of the browser.
 */
export function SignIn({
  message,
  resumes,
  onSignedIn,
}: {
  message: string | undefined;
  /** Take up the session that the browser has. */
  resumes: boolean;
  onSignedIn: (key: string | undefined, me: Me) => void;
}) {
  const [key, setKey] = useState('');
  const [busy, setBusy] = useState(() => storedKey() !== undefined);
  const [fault, setFault] = useState<string>();
  /** Name of the provider; undefined while there is none. */
  const [provider, setProvider] = useState<string>();
  const isFirst = useRef(true);

  const prove = async (candidate: string) => {
    setBusy(true);
    setFault(undefined);
    try {
      onSignedIn(candidate, await new ConsoleApi(candidate).me());
    } catch (thrown) {
      const error = asToolError(thrown);
      setFault(error.status === 401 ? 'This key is not accepted.' : error.message);
      if (error.status === 401) storeKey(undefined);
      setBusy(false);
    }
  };
  const resume = async () => {
    try {
      const { available, name } = await new ConsoleApi(undefined).signIn();
      if (!available) return;
      setProvider(name ?? 'your provider');
      if (resumes) onSignedIn(undefined, await new ConsoleApi(undefined).me());
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

  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (key.trim() === '') setFault('Enter a key.');
    else void prove(key.trim());
  };
  const shown = fault ?? message;
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
            {shown}
          </p>
        </div>
        <button className={provider === undefined ? 'primary' : undefined} disabled={busy}>
          {busy ? 'Checking…' : provider === undefined ? 'Sign in' : 'Sign in with a key'}
        </button>
      </form>
    </main>
  );
}
