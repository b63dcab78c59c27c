import { useSyncExternalStore } from 'react';

/** A location in the console: `#/tools/calculator` is item `calculator` of view `tools`. */
export interface Place {
  view: string;
  item: string | undefined;
}

/** Parses the fragment of an address. */
export function parsePlace(hash: string): Place {
  const [view = '', item] = hash.replace(/^#\/?/, '').split('/');
  return { view: view || 'tools', item: item === undefined || item === '' ? undefined : decoded(item) };
}

/** The address of a place inside the console. */
export function toAddress(view: string, item?: string): string {
  return item === undefined ? `#/${view}` : `#/${view}/${encodeURIComponent(item)}`;
}

/** The current location. It is in the fragment, so that every address loads the same document. */
export function usePlace(): Place {
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

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
