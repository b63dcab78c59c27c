import type { Me, ToolfleetClient } from '@toolfleet/client';
import { createContext, useContext } from 'react';
import type { RequestAllowance } from './api/client.js';

/**
 * Where the key of this tab is stored. Session storage ends with the tab and is invisible to other origins; the content
 * security policy allows only the console's own scripts and connections to its own gateway.
 */
const STORED = 'toolfleet.key';

/** The view that the user left to sign in at the provider. */
const PLACE = 'toolfleet.place';

/** Where storage is disabled, the key lasts until the page is reloaded, and the start page opens after a sign-in. */
function inTab<T>(use: (storage: Storage) => T): T | undefined {
  try {
    return use(sessionStorage);
  } catch {
    return undefined;
  }
}

/** The key stored before a reload of this tab. */
export const storedKey = (): string | undefined => inTab((tab) => tab.getItem(STORED)) ?? undefined;

/** Stores the key for reloads of this tab, or removes it. */
export function storeKey(key: string | undefined): void {
  inTab((tab) => (key === undefined ? tab.removeItem(STORED) : tab.setItem(STORED, key)));
}

/** Goes to the company's OpenID provider; the browser comes back signed in, to the same view. */
export function goToProvider(): void {
  inTab((tab) => tab.setItem(PLACE, location.hash));
  location.assign('/auth/sign-in');
}

/** Opens the view that was left for the sign-in. */
export function returnToPlace(): void {
  const place = inTab((tab) => tab.getItem(PLACE));
  inTab((tab) => tab.removeItem(PLACE));
  if (place?.startsWith('#') && location.hash === '') location.hash = place;
}

/** Redirect paths of authorization servers, one for each source. */
const RETURN_PATHS = '/console/connected/';
/** The redirect of a browser: the query, and the address without it. */
interface Returned {
  redirect: string;
  redirect_uri: string;
}
let returned: Returned | undefined;

/** Where the authorization server of a source sends the browser back to. */
export const connectReturnUrl = (source: string): string => location.origin + RETURN_PATHS + source;

/** Takes the answer of an authorization server out of the address, so that neither the history nor a reload has its code. */
export function readReturn(): void {
  if (!location.pathname.startsWith(RETURN_PATHS)) return;
  const redirect = location.search.slice(1);
  if (redirect !== '') returned = { redirect, redirect_uri: location.origin + location.pathname };
  history.replaceState(null, '', '/console#/connections');
}

/** That answer, once; undefined if there is none. */
export function takeReturn(): Returned | undefined {
  const taken = returned;
  returned = undefined;
  return taken;
}

/** The signed-in caller and its client. */
export interface Signed {
  api: ToolfleetClient;
  me: Me;
  /** The remaining requests of the last response that said so. */
  allowance: () => RequestAllowance | undefined;
}

export const SignedContext = createContext<Signed | undefined>(undefined);

/** @throws Error outside the signed-in part of the console */
export function useSigned(): Signed {
  const signed = useContext(SignedContext);
  if (!signed) throw new Error('a view outside the signed-in part');
  return signed;
}
