import { useSyncExternalStore } from 'react';

/** A location in the console: `#/tools/calculator` is item `calculator` of view `tools`, `#/tools/calculator/7c1e` a call of it. */
interface Place {
  view: string;
  item: string | undefined;
  detail: string | undefined;
}

/** Parses the fragment of an address. */
export function parsePlace(hash: string): Place {
  const [view = '', item, detail] = hash.replace(/^#\/?/, '').split('/');
  return { view: view || 'tools', item: decoded(item), detail: decoded(detail) };
}

/** The address of a place inside the console. */
export function toAddress(view: string, item?: string, detail?: string): string {
  const parts = [view, item, detail].filter((part) => part !== undefined);
  return `#/${parts.map(encodeURIComponent).join('/')}`;
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

function decoded(text: string | undefined): string | undefined {
  if (!text) return undefined;
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
