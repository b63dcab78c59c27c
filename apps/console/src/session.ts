import { createContext, useContext } from 'react';
import type { ConsoleApi } from './api/console-api.js';
import type { Me } from '@toolfleet/client';

/**
 * Where the key of this tab is stored. Session storage ends with the tab and is invisible to other origins; the content
 * security policy allows only the console's own scripts and connections to its own gateway.
 */
const STORED = 'toolfleet.key';

/** The key stored before a reload of this tab. */
export function storedKey(): string | undefined {
  try {
    return sessionStorage.getItem(STORED) ?? undefined;
  } catch {
    return undefined; // storage is disabled: the key lasts until the page is reloaded
  }
}

/** Stores the key for reloads of this tab, or removes it. */
export function storeKey(key: string | undefined): void {
  try {
    if (key === undefined) sessionStorage.removeItem(STORED);
    else sessionStorage.setItem(STORED, key);
  } catch {
    // storage is disabled
  }
}

/** Where the console was left for the sign-in at the provider, which comes back to its start. */
const PLACE = 'toolfleet.place';

/** Goes to the company's OpenID provider; the browser comes back signed in, to the same view. */
export function goToProvider(): void {
  try {
    sessionStorage.setItem(PLACE, location.hash);
  } catch {
    // storage is disabled: the start page opens
  }
  location.assign('/auth/sign-in');
}

/** Opens the view that was left for the sign-in. */
export function returnToPlace(): void {
  try {
    const place = sessionStorage.getItem(PLACE);
    sessionStorage.removeItem(PLACE);
    if (place?.startsWith('#') && location.hash === '') location.hash = place;
  } catch {
    // storage is disabled
  }
}

/** Path to which authorization servers send the browser back. */
const RETURN_PATH = '/console/connected';
/** The query with which the browser came back, until it is finished. */
let returned: string | undefined;

/** Where an authorization server sends the browser back to. */
export const connectReturnUrl = (): string => location.origin + RETURN_PATH;

/** Takes the answer of an authorization server out of the address, so that neither the history nor a reload has its code. */
export function readReturn(): void {
  if (location.pathname !== RETURN_PATH) return;
  returned = location.search.slice(1);
  history.replaceState(null, '', '/console#/connections');
}

/** The query of that answer, once; undefined if there is none. */
export function takeReturn(): string | undefined {
  const query = returned;
  returned = undefined;
  return query || undefined;
}

/** The signed-in caller and its API. */
export interface Signed {
  api: ConsoleApi;
  me: Me;
}

export const SignedContext = createContext<Signed | undefined>(undefined);

/** @throws Error outside the signed-in part of the console */
export function useSigned(): Signed {
  const signed = useContext(SignedContext);
  if (!signed) throw new Error('a view outside the signed-in part');
  return signed;
}
