import { useSyncExternalStore } from 'react';

/**
 * A location in the console: `#/tools/calculator` is item `calculator` of view `tools`, `#/tools/calculator/7c1e` a call of it,
 * `#/calls?tool=calculator` the calls that a filter selects.
 */
interface ViewPlace {
  /** Empty: the start page. */
  view: string;
  item: string | undefined;
  detail: string | undefined;
  filter: PlaceFilter;
}
/** Parameters after the `?` of an address, without empty ones. */
export type PlaceFilter = Readonly<Record<string, string>>;

/** Parses the fragment of an address. */
export function parsePlace(hash: string): ViewPlace {
  const [, path = '', search] = /^#?\/?([^?]*)\??(.*)$/s.exec(hash) ?? [];
  const [view = '', item, detail] = path.split('/');
  const filter = Object.fromEntries([...new URLSearchParams(search)].filter(([, value]) => value !== ''));
  return { view, item: decoded(item), detail: decoded(detail), filter };
}

/** The address of a view with a filter. Empty values are left out. */
export function toFilteredAddress(view: string, filter: Readonly<Record<string, string | undefined>>): string {
  const known = Object.entries(filter).filter((entry): entry is [string, string] => Boolean(entry[1]));
  return known.length === 0 ? toAddress(view) : `${toAddress(view)}?${new URLSearchParams(known).toString()}`;
}

/** The address of a place inside the console. */
export function toAddress(view: string, item?: string, detail?: string): string {
  const parts = [view, item, detail].filter((part) => part !== undefined);
  return `#/${parts.map(encodeURIComponent).join('/')}`;
}

/** Goes to a place without an entry in the history. Views know it at once, so that an input may write its text into the address. */
export function replacePlace(address: string): void {
  history.replaceState(null, '', address);
  dispatchEvent(new HashChangeEvent('hashchange'));
}

/** The current location. It is in the fragment, so that every address loads the same document. */
export function usePlace(): ViewPlace {
  return parsePlace(
    useSyncExternalStore(
      (changed) => {
        addEventListener('hashchange', changed);
        return () => removeEventListener('hashchange', changed);
      },
      () => location.hash,
    ),
  );
}

function decoded(text: string | undefined): string | undefined {
  if (!text) return undefined;
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
