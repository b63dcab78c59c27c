import { useRef, useState, type ReactNode } from 'react';

/** A button that asks once more before it acts. Whoever uses keys stays where the button is. */
export function ConfirmButton({
  children,
  question,
  danger = false,
  disabled = false,
  onConfirm,
}: {
  children: ReactNode;
  question: string;
  danger?: boolean;
  disabled?: boolean;
  onConfirm: () => void;
}) {
  const [asking, setAsking] = useState(false);
  const wasAsked = useRef(false);
  const answer = (yes: boolean) => {
    setAsking(false);
    if (yes) onConfirm();
  };
  if (!asking)
    return (
      <button
        className={danger ? 'danger' : ''}
        disabled={disabled}
        ref={(button) => {
          if (button && wasAsked.current) button.focus();
          if (button) wasAsked.current = false;
        }}
        onClick={() => {
          wasAsked.current = true;
          setAsking(true);
        }}
      >
        {children}
      </button>
    );
  return (
    <span
      className="row"
      role="group"
      aria-label={question}
      onKeyDown={(event) => event.key === 'Escape' && answer(false)}
    >
      <span className="small">{question}</span>
      <button autoFocus className={danger ? 'danger' : 'primary'} onClick={() => answer(true)}>
        Yes
      </button>
      <button onClick={() => answer(false)}>No</button>
    </span>
  );
}
