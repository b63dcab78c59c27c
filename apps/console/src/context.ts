import { createContext, useContext } from 'react';
import type { ConsoleApi } from './api/console-api.js';
import type { Me } from '@toolfleet/client';

/** Who is signed in, and the way to the gateway. */
export interface Signed {
  api: ConsoleApi;
  me: Me;
}

export const SignedContext = createContext<Signed | undefined>(undefined);

/** Inside the signed-in part of the console. */
export function useSigned(): Signed {
  const signed = useContext(SignedContext);
  if (!signed) throw new Error('a view outside the signed-in part');
  return signed;
}
