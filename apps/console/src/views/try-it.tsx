import { useEffect, useId, useMemo, useRef, useState, type FormEvent } from 'react';
import type { CatalogToolDetail, JsonObject } from '@toolfleet/client';
import { pretty } from '../format.js';
import { toAddress } from '../router.js';
import { useSigned } from '../session.js';
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
import { toCallState, useFollowedCall } from './follow-call.js';
import { useCall, type CallMode } from './use-call.js';

/**
 * A form generated from a tool's schema, and the outcome of the call. A call in the background is part of the address (`call`), so
 * that it is shown again after a reload; the form starts with its arguments, also with those that are kept of any other call.
 */
export function TryIt({ tool, call }: { tool: CatalogToolDetail; call: string | undefined }) {
  const { api } = useSigned();
  const fields = useMemo(() => toFields(tool.parameters), [tool]);
  const [form, setForm] = useState<'fields' | 'json'>(
    fields.length === 0 || needsJson(tool.parameters) ? 'json' : 'fields',
  );
  const [texts, setTexts] = useState<FormTexts>(() => initialTexts(fields));
  const [json, setJson] = useState('{}');
  const [mode, setMode] = useState<CallMode>('background');
  const [session, setSession] = useState('');
  const [faults, setFaults] = useState<Record<string, string>>({});
  const { state, run, cancel } = useCall(tool.name);
  const kept = useFollowedCall(call);
  // Of a call that waited for its result only the arguments are known; the form shows them.
  const followed = kept.error?.code === 'NOT_FOUND' ? ({ phase: 'idle' } as const) : toCallState(kept);
  const shown = state.phase === 'idle' ? followed : state;
  const busy = shown.phase === 'running';
  const fill = (args: JsonObject) => {
    setTexts(textsFor(fields, args));
    setJson(pretty(args));
  };

  const keptArguments = async (id: string) => (await api.callBody(id)).arguments;

  // Once, because later calls come from this form.
  const first = useRef(call);
  useEffect(() => {
    if (first.current === undefined) return undefined;
    const controller = new AbortController();
    const { signal } = controller;
    const id = first.current;
    api
      .asyncCall(id, signal)
      .then(({ arguments: args }) => args ?? keptArguments(id))
      .catch(() => keptArguments(id))
      .then((args) => args && !signal.aborted && fill(args))
      .catch(() => undefined); // faults are shown with the outcome
    return () => controller.abort();
  }, [api]);

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
    if (!('arguments' in read)) return;
    void run(read.arguments, mode, session.trim()).then((id) => {
      if (id !== call) location.replace(toAddress('tools', tool.name, id));
    });
  };
  const stop = () => {
    if (state.phase === 'running' || call === undefined) cancel();
    // A cancelled background call still ends with an outcome to show.
    else void api.cancelCall(call).catch(() => undefined);
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
              <button key={index} type="button" onClick={() => fill(example)}>
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
            ['background', 'Run; goes on when you leave this page'],
            ['wait', 'Run and wait; cancelled when you leave'],
            ['dry', 'Dry run: check and price only'],
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
            <button type="button" onClick={stop}>
              Cancel
            </button>
          )}
        </div>
      </form>
      <CallOutcome state={shown} tool={tool.name} />
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
