import { useSyncExternalStore } from 'react';

/** Place in the console: `#/tools/calculator` is view `tools` with item `calculator`. */
export interface Place {
  view: string;
  item: string | undefined;
}

/** Reads the fragment of an address. */
export function placeOf(hash: string): Place {
  const [view = '', item] = hash.replace(/^#\/?/, '').split('/');
  return { view: view || 'tools', item: item === undefined || item === '' ? undefined : decoded(item) };
}

/** The address of a place inside the console. */
export function addressOf(view: string, item?: string): string {
  return item === undefined ? `#/${view}` : `#/${view}/${encodeURIComponent(item)}`;
}

/** The place shown now; the console stays one document, so that reloads need nothing from the server but its files. */
export function usePlace(): Place {
  return placeOf(
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
