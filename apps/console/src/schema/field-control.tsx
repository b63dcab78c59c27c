import { useId, type ReactNode } from 'react';
import type { ChoiceInput, FormField, FormTexts } from './form.js';

type Marks = 'optional' | 'required' | 'none';

interface FormProps {
  fields: readonly FormField[];
  texts: FormTexts;
  /** What is wrong, by the name of a field. */
  faults: FormTexts;
  marks?: Marks;
  onChange: (texts: FormTexts) => void;
}

/** The controls of all fields of a form. */
export const FieldControls = ({ fields, texts, faults, marks, onChange }: FormProps) =>
  fields.map((field) => (
    <FieldControl
      key={field.name}
      marks={marks}
      field={field}
      text={texts[field.name] ?? ''}
      fault={faults[field.name]}
      onChange={(text) => onChange({ ...texts, [field.name]: text })}
    />
  ));

interface ControlProps {
  field: FormField;
  text: string;
  onChange: (text: string) => void;
}

/**
 * One field: label, control of its kind, help, and its fault.
 * @param marks whether required or optional fields are marked
 */
export function FieldControl({
  marks = 'optional',
  fault,
  ...control
}: ControlProps & { marks?: Marks | undefined; fault: string | undefined }) {
  const id = useId();
  const { name, label, help, required, input } = control.field;
  const mark = { required: required && ' (required)', optional: !required && ' — optional', none: undefined }[marks];
  const isGroup = input.kind === 'checks';
  return (
    <div className="field" role={isGroup ? 'group' : undefined} aria-labelledby={isGroup ? `${id}-label` : undefined}>
      <label id={`${id}-label`} htmlFor={isGroup ? undefined : id}>
        {label}
        {marks === 'optional' && label !== name && <span className="soft"> ({name})</span>}
        {mark && <span className="soft">{mark}</span>}
      </label>
      {help !== '' && (
        <p id={`${id}-help`} className="small soft wrap">
          {help}
        </p>
      )}
      <Control {...control} id={id} isInvalid={fault !== undefined} />
      <p id={`${id}-fault`} className="fault" role="alert">
        {fault && `${label} ${fault}`}
      </p>
    </div>
  );
}

function Control({ field, text, onChange, id, isInvalid }: ControlProps & { id: string; isInvalid: boolean }) {
  const { required, input, placeholder } = field;
  const props = {
    id,
    value: text,
    required,
    placeholder,
    'aria-invalid': isInvalid,
    'aria-describedby': `${id}-help ${id}-fault`,
    onChange: (event: { target: { value: string } }) => onChange(event.target.value),
  };
  switch (input.kind) {
    case 'checks':
      return <Checks options={input.options} text={text} onChange={onChange} />;
    case 'choice':
      return (
        <select {...props}>
          <Options field={field} {...input} />
        </select>
      );
    case 'number': {
      const isCount = input.whole && (input.min ?? -1) >= 0;
      return <input {...props} type="text" inputMode={isCount ? 'numeric' : 'decimal'} autoComplete="off" />;
    }
    case 'json': {
      const rows = Math.min(16, Math.max(4, text.split('\n').length + 1));
      return <textarea {...props} rows={rows} spellCheck={false} placeholder={input.example} />;
    }
    default: {
      if (input.kind === 'text' && input.multiline)
        return <textarea {...props} rows={Math.min(16, Math.max(6, text.split('\n').length + 1))} spellCheck={false} />;
      const more =
        input.kind === 'text' ? { type: input.secret ? 'password' : 'text', maxLength: input.maxLength } : {};
      return <input {...props} {...more} autoComplete="off" spellCheck={false} />;
    }
  }
}

type OptionsProps = { field: FormField } & Omit<ChoiceInput, 'kind'>;

/** The options of a select. The first stands for no value, unless a required choice has an initial one. */
function Options({ field: { required, initial, unset }, options, texts }: OptionsProps): ReactNode {
  return (
    <>
      {!(required && initial !== '') && <option value="">{unset ?? (required ? 'Choose' : 'Not set')}</option>}
      {options.map((option, index) => (
        <option key={index} value={index}>
          {texts?.[index] ?? (typeof option === 'string' ? option : JSON.stringify(option))}
        </option>
      ))}
    </>
  );
}

function Checks(props: { options: readonly string[]; text: string; onChange: (text: string) => void }) {
  const checked = props.text.split(' ').filter(Boolean);
  const toggle = (option: string) =>
    checked.includes(option) ? checked.filter((one) => one !== option) : [...checked, option];
  return (
    <div className="row">
      {props.options.map((option) => (
        <label key={option} className="row">
          <input
            type="checkbox"
            checked={checked.includes(option)}
            onChange={() => props.onChange(toggle(option).join(' '))}
          />
          {option}
        </label>
      ))}
    </div>
  );
}
