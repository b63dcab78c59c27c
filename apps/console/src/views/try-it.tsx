import { useId, useMemo, useState, type FormEvent } from 'react';
import type { CatalogToolDetail } from '@toolfleet/client';
import { pretty } from '../format.js';
import {
  toFields,
  needsJson,
  initialTexts,
  readForm,
  readJson,
  textsFor,
  type FormReading,
  type FormTexts,
} from '../schema/form.js';
import { Choice, Labelled, Segments } from '../ui/components.js';
import { ArgumentField } from './argument-field.js';
import { CallOutcome } from './call-outcome.js';
import { useCall, type CallMode } from './use-call.js';

/** A form generated from a tool's schema, and the outcome of the call. */
export function TryIt({ tool }: { tool: CatalogToolDetail }) {
  const fields = useMemo(() => toFields(tool.parameters), [tool]);
  const [form, setForm] = useState<'fields' | 'json'>(
    fields.length === 0 || needsJson(tool.parameters) ? 'json' : 'fields',
  );
  const [texts, setTexts] = useState<FormTexts>(() => initialTexts(fields));
  const [json, setJson] = useState('{}');
  const [mode, setMode] = useState<CallMode>('run');
  const [session, setSession] = useState('');
  const [faults, setFaults] = useState<Record<string, string>>({});
  const { state, run, cancel } = useCall(tool.name);
  const busy = state.phase === 'running';

  const reading = (): FormReading => (form === 'json' ? readJson(json) : readForm(fields, texts));
  const switchTo = (next: 'fields' | 'json') => {
    const read = reading();
    if ('arguments' in read) {
      if (next === 'json') setJson(pretty(read.arguments));
      else setTexts(textsFor(fields, read.arguments));
    }
    setFaults({});
    setForm(next);
  };
  const submit = (event: FormEvent) => {
    event.preventDefault();
    const read = reading();
    setFaults('faults' in read ? read.faults : {});
    if ('arguments' in read) void run(read.arguments, mode, session.trim());
  };
  const refusal =
    tool.not_callable_because?.reason ?? (tool.available ? undefined : 'No executor currently serves it.');
  return (
    <section className="stack" aria-labelledby="try">
      <form className="card stack" onSubmit={submit} noValidate>
        <div className="row spread">
          <h2 id="try">Try it</h2>
          <Segments
            label="Way to fill in"
            value={form}
            onChange={switchTo}
            options={[
              ['fields', 'Form'],
              ['json', 'JSON'],
            ]}
          />
        </div>
        {refusal !== undefined && (
          <div className="notice warn">
            <strong>This tool cannot be called from here</strong>
            <span>{refusal}</span>
          </div>
        )}
        {tool.input_examples.length > 0 && (
          <div className="row">
            <span className="small soft">Examples</span>
            {tool.input_examples.slice(0, 4).map((example, index) => (
              <button
                key={index}
                type="button"
                onClick={() => {
                  setTexts(textsFor(fields, example));
                  setJson(pretty(example));
                }}
              >
                {index + 1}
              </button>
            ))}
          </div>
        )}
        {form === 'json' ? (
          <JsonArguments text={json} fault={faults['']} onChange={setJson} />
        ) : (
          fields.map((field) => (
            <ArgumentField
              key={field.name}
              field={field}
              text={texts[field.name] ?? ''}
              fault={faults[field.name]}
              onChange={(text) => setTexts({ ...texts, [field.name]: text })}
            />
          ))
        )}
        <Choice
          label="Mode"
          value={mode}
          onChange={(value) => setMode(value as CallMode)}
          options={[
            ['run', 'Run and wait'],
            ['dry', 'Dry run: check and price only'],
            ['async', 'Run in the background'],
          ]}
        />
        {tool.session_aware && (
          <Labelled label="Session (keeps state between calls) — optional">
            {(id) => (
              <input
                id={id}
                value={session}
                maxLength={255}
                autoComplete="off"
                spellCheck={false}
                onChange={(event) => setSession(event.target.value)}
              />
            )}
          </Labelled>
        )}
        <div className="row">
          <button className="primary" disabled={busy || refusal !== undefined}>
            {busy ? 'Running…' : mode === 'dry' ? 'Check' : 'Run'}
          </button>
          {busy && (
            <button type="button" onClick={cancel}>
              Cancel
            </button>
          )}
        </div>
      </form>
      <CallOutcome state={state} />
    </section>
  );
}

function JsonArguments({
  text,
  fault,
  onChange,
}: {
  text: string;
  fault: string | undefined;
  onChange: (text: string) => void;
}) {
  const id = useId();
  return (
    <div className="field">
      <label htmlFor={id}>Arguments as JSON</label>
      <textarea
        id={id}
        rows={8}
        spellCheck={false}
        value={text}
        onChange={(event) => onChange(event.target.value)}
        aria-invalid={fault !== undefined}
        aria-describedby={`${id}-fault`}
      />
      <p id={`${id}-fault`} className="fault" role="alert">
        {fault && `This ${fault}`}
      </p>
    </div>
  );
}
