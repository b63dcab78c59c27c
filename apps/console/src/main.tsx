import { useCallback, useMemo, useState, StrictMode } from 'react';
import { ConsoleApi } from './api/console-api.js';
import type { Me } from '@toolfleet/client';
import { SignedContext, type Signed, storeKey } from './session.js';
import { Frame } from './frame.js';
import { SignIn } from './sign-in.js';
import { createRoot } from 'react-dom/client';

/** The console: the sign-in, then the frame with its views. */
function App() {
  const [signed, setSigned] = useState<{ key: string; me: Me }>();
  const [message, setMessage] = useState<string>();

  const signOut = useCallback((why?: string) => {
    storeKey(undefined);
    setSigned(undefined);
    setMessage(why);
  }, []);
  const signIn = useCallback((key: string, me: Me) => {
    storeKey(key);
    setMessage(undefined);
    setSigned({ key, me });
  }, []);
  const context = useMemo<Signed | undefined>(
    () =>
      signed && {
        me: signed.me,
        api: new ConsoleApi(signed.key, () => signOut('This key is no longer accepted. Sign in again.')),
      },
    [signed, signOut],
  );

  if (!context) return <SignIn message={message} onSignedIn={signIn} />;
  return (
    <SignedContext value={context}>
      <Frame onSignOut={signOut} />
    </SignedContext>
  );
}

createRoot(document.getElementById('root')!).render(
  <StrictMode>
    <App />
  </StrictMode>,
);
