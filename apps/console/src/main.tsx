import type { Me } from '@toolfleet/client';
import { QueryClientProvider } from '@tanstack/react-query';
import { StrictMode, useCallback, useMemo, useState } from 'react';
import { createRoot } from 'react-dom/client';
import { createClient, readAllowance, type RequestAllowance } from './api/client.js';
import { asToolError, createCache } from './api/queries.js';
import { Frame } from './frame.js';
import { readReturn, returnToPlace, SignedContext, storeKey, type Signed } from './session.js';
import { SignIn } from './sign-in.js';

/** The client of a signed-in caller. `onRefused` is called when its key or session itself is rejected (401). */
function connect(key: string | undefined, me: Me, onRefused: () => void): Signed {
  let allowance: RequestAllowance | undefined;
  const api = createClient(key, ({ headers, status }) => {
    allowance = readAllowance(headers) ?? allowance;
    if (status === 401) onRefused();
  });
  return { api, me, allowance: () => allowance };
}

/** The console: the sign-in, then the frame with its views. */
function App() {
  const [signed, setSigned] = useState<Signed & { key: string | undefined }>();
  const [message, setMessage] = useState<string>();
  /** The user left: a session that the browser still has is not taken up again. */
  const [hasLeft, setHasLeft] = useState(false);
  // The next caller must not see data of this one.
  const cache = useMemo(createCache, [signed]);

  const signOut = useCallback((why?: string) => {
    storeKey(undefined);
    setSigned(undefined);
    setMessage(why);
  }, []);
  const signIn = (key: string | undefined, me: Me) => {
    storeKey(key);
    if (key === undefined) returnToPlace();
    setMessage(undefined);
    const what = key === undefined ? 'session has ended' : 'key is no longer accepted';
    setSigned({ key, ...connect(key, me, () => signOut(`This ${what}. Sign in again.`)) });
  };
  /** Ends a session here, and then at the provider; a key is only forgotten. */
  const leave = async () => {
    try {
      const url = signed?.key === undefined ? (await signed?.api.request('POST /api/v1/sign-out', {}))?.url : null;
      setHasLeft(true);
      signOut();
      if (typeof url === 'string') location.assign(url);
    } catch (error) {
      signOut(`The session could not be ended: ${asToolError(error).message}`);
    }
  };

  if (!signed) return <SignIn message={message} resumes={!hasLeft} onSignedIn={signIn} />;
  return (
    <SignedContext value={signed}>
      <QueryClientProvider client={cache}>
        <Frame onSignOut={() => void leave()} />
      </QueryClientProvider>
    </SignedContext>
  );
}

readReturn();
createRoot(document.getElementById('root')!).render(
  <StrictMode>
    <App />
  </StrictMode>,
);
