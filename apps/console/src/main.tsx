import { useCallback, useMemo, useState, StrictMode } from 'react';
import { ConsoleApi } from './api/console-api.js';
import type { Me } from '@toolfleet/client';
import { readReturn, returnToPlace, SignedContext, type Signed, storeKey } from './session.js';
import { Frame } from './frame.js';
import { SignIn } from './sign-in.js';
import { asToolError } from './use-query.js';
import { createRoot } from 'react-dom/client';

/** The console: the sign-in, then the frame with its views. */
function App() {
  const [signed, setSigned] = useState<{ key: string | undefined; me: Me }>();
  const [message, setMessage] = useState<string>();
  /** The user left: a session that the browser still has is not taken up again. */
  const [hasLeft, setHasLeft] = useState(false);

  const signOut = useCallback((why?: string) => {
    storeKey(undefined);
    setSigned(undefined);
    setMessage(why);
  }, []);
  const signIn = useCallback((key: string | undefined, me: Me) => {
    storeKey(key);
    if (key === undefined) returnToPlace();
    setMessage(undefined);
    setSigned({ key, me });
  }, []);
  const context = useMemo<Signed | undefined>(
    () =>
      signed && {
        me: signed.me,
        api: new ConsoleApi(signed.key, () =>
          signOut(
            `This ${signed.key === undefined ? 'session has ended' : 'key is no longer accepted'}. Sign in again.`,
          ),
        ),
      },
    [signed, signOut],
  );
  /** Ends a session here, and then at the provider; a key is only forgotten. */
  const leave = useCallback(async () => {
    try {
      const url = signed?.key === undefined ? (await context?.api.signOut())?.url : null;
      setHasLeft(true);
      signOut();
      if (typeof url === 'string') location.assign(url);
    } catch (error) {
      signOut(`The session could not be ended: ${asToolError(error).message}`);
    }
  }, [context, signed, signOut]);

  if (!context) return <SignIn message={message} resumes={!hasLeft} onSignedIn={signIn} />;
  return (
    <SignedContext value={context}>
      <Frame onSignOut={() => void leave()} />
    </SignedContext>
  );
}

readReturn();
createRoot(document.getElementById('root')!).render(
  <StrictMode>
    <App />
  </StrictMode>,
);
