import { useState } from 'react';

/** Copies a text. Pages without TLS have no clipboard: the text next to the button can be selected instead. */
export function CopyButton({ text }: { text: string }) {
  const [state, setState] = useState<'copied' | 'failed'>();
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      setState('copied');
    } catch {
      setState('failed');
    }
  };
  return (
    <button type="button" className="compact" onClick={() => void copy()}>
      {state === 'copied' ? 'Copied' : state === 'failed' ? 'Select the text to copy it' : 'Copy'}
    </button>
  );
}
