import { useEffect, useRef, useState, type FormEvent } from 'react';
import { ConsoleApi } from './api/console-api.js';
import type { Me } from '@toolfleet/client';
import { storedKey, storeKey } from './session.js';
import { Brand } from './ui/components.js';
import { asToolError } from './use-query.js';

/** Asks for a key and checks it. A key stored before a reload is tried first. */
export function SignIn({
  message,
  onSignedIn,
}: {
  message: string | undefined;
  onSignedIn: (key: string, me: Me) => void;
}) {
  const [key, setKey] = useState('');
  const [busy, setBusy] = useState(() => storedKey() !== undefined);
  const [fault, setFault] = useState<string>();
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
  useEffect(() => {
    const kept = isFirst.current ? storedKey() : undefined;
    isFirst.current = false;
    if (kept !== undefined) void prove(kept);
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
          <p className="soft">With an API key or a token of your identity provider. It stays in this tab.</p>
        </div>
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
        <button className="primary" disabled={busy}>
          {busy ? 'Checking…' : 'Sign in'}
        </button>
      </form>
    </main>
  );
}
