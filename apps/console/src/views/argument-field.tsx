import { useId } from 'react';
import type { Field } from '../schema/form.js';

/** One argument: label, control of its kind, help, and its fault. */
export function ArgumentField({
  field,
  text,
  fault,
  onChange,
}: {
  field: Field;
  text: string;
  fault: string | undefined;
  onChange: (text: string) => void;
}) {
  const id = useId();
  const { name, label, help, required, input } = field;
  const props = {
    id,
    value: text,
    required,
    'aria-invalid': fault !== undefined,
    'aria-describedby': `${id}-help ${id}-fault`,
    onChange: (event: { target: { value: string } }) => onChange(event.target.value),
  };
  return (
    <div className="field">
      <label htmlFor={id}>
        {label}
        {label !== name && <span className="soft"> ({name})</span>}
        {!required && <span className="soft"> — optional</span>}
      </label>
      {help !== '' && (
        <p id={`${id}-help`} className="small soft wrap">
          {help}
        </p>
      )}
      {input.kind === 'boolean' ? (
        <select {...props}>
          <option value="">{required ? 'Choose' : 'Not set'}</option>
          <option value="true">Yes</option>
          <option value="false">No</option>
        </select>
      ) : input.kind === 'choice' ? (
        <select {...props}>
          <option value="">{required ? 'Choose' : 'Not set'}</option>
          {input.options.map((option, index) => (
            <option key={index} value={index}>
              {typeof option === 'string' ? option : JSON.stringify(option)}
            </option>
          ))}
        </select>
      ) : input.kind === 'number' ? (
        <input
          {...props}
          type="text"
          inputMode={input.whole && (input.min ?? -1) >= 0 ? 'numeric' : 'decimal'}
          autoComplete="off"
        />
      ) : input.kind === 'json' || input.multiline ? (
        <textarea
          {...props}
          rows={Math.min(16, Math.max(input.kind === 'json' ? 4 : 6, text.split('\n').length + 1))}
          spellCheck={false}
          placeholder={input.kind === 'json' ? input.example : undefined}
        />
      ) : (
        <input {...props} type="text" autoComplete="off" spellCheck={false} maxLength={input.maxLength} />
      )}
      <p id={`${id}-fault`} className="fault" role="alert">
        {fault && `${label} ${fault}`}
      </p>
    </div>
  );
}
