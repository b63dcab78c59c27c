/**
 * The key of this tab. Session storage ends with the tab and no other page of another origin reads it; the page runs own
 * scripts only and speaks to its gateway only (its content security policy), so there is nobody to take it.
 */
const STORED = 'toolfleet.key';

/** The key of an earlier load of this tab. */
export function storedKey(): string | undefined {
  try {
    return sessionStorage.getItem(STORED) ?? undefined;
  } catch {
    return undefined; // storage is switched off: the key lives as long as the page
  }
}

/** Keeps the key for reloads of this tab; without one, forgets it. */
export function storeKey(key: string | undefined): void {
  try {
    if (key === undefined) sessionStorage.removeItem(STORED);
    else sessionStorage.setItem(STORED, key);
  } catch {
    // as above
  }
}
