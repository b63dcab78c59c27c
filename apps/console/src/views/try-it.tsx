import type { CatalogToolDetail, JsonObject } from '@toolfleet/client';
import { useEffect, useMemo, useRef, useState, type FormEvent } from 'react';
import { pretty } from '../format.js';
import { toAddress } from '../router.js';
import { FieldControl, FieldControls } from '../schema/field-control.js';
import {
  initialTexts,
  needsJson,
  readForm,
  readJson,
  textsFor,
  toFields,
  type FormReading,
  type FormTexts,
} from '../schema/form.js';
import { useSigned } from '../session.js';
import { Choice, Notice, Segments, TextInput } from '../ui/components.js';
import { CallOutcome } from './call-outcome.js';
import { toOutcome, useFollowedCall, type OutcomeState } from './follow-call.js';
import { useCall, type RunMode } from './use-call.js';

/** Arguments are entered in a form of their schema, or as JSON. */
type EntryForm = 'fields' | 'json';

const ENTRY_FORMS = [
  ['fields', 'Form'],
  ['json', 'JSON'],
] as const;
const MODES = [
  ['background', 'Run; goes on when you leave this page'],
  ['wait', 'Run and wait; cancelled when you leave'],
  ['dry', 'Dry run: check and price only'],
] as const;

/** The arguments that are being entered; switching between form and JSON keeps them if they can be read. */
function useArguments({ parameters }: CatalogToolDetail) {
  const fields = useMemo(() => toFields(parameters), [parameters]);
  const [form, setForm] = useState<EntryForm>(fields.length === 0 || needsJson(parameters) ? 'json' : 'fields');
  const [texts, setTexts] = useState<FormTexts>(() => initialTexts(fields));
  const [json, setJson] = useState('{}');
  const [faults, setFaults] = useState<Record<string, string>>({});
  const fill = (args: JsonObject) => {
    setTexts(textsFor(fields, args));
    setJson(pretty(args));
  };
  const parse = (): FormReading => (form === 'json' ? readJson(json) : readForm(fields, texts));
  const switchTo = (next: EntryForm) => {
    const reading = parse();
    if ('arguments' in reading && next === 'json') setJson(pretty(reading.arguments));
    else if ('arguments' in reading) setTexts(textsFor(fields, reading.arguments));
    setFaults({});
    setForm(next);
  };
  /** The arguments; undefined if they have faults. Shows the faults. */
  const read = (): JsonObject | undefined => {
    const reading = parse();
    setFaults('faults' in reading ? reading.faults : {});
    return 'faults' in reading ? undefined : reading.arguments;
  };
  return { fields, form, texts, setTexts, json, setJson, faults, fill, switchTo, read };
}

/** Fills in the kept or recorded arguments of a call, once. */
function useKeptArguments(call: string | undefined, fill: (args: JsonObject) => void): void {
  const { api } = useSigned();
  // Later calls come from the form itself.
  const first = useRef(call);
  useEffect(() => {
    const id = first.current;
    if (id === undefined) return undefined;
    const controller = new AbortController();
    const { signal } = controller;
    const path = { id };
    const recorded = async () => (await api.request('GET /api/v1/calls/{id}/body', { path, signal })).body.arguments;
    api
      .request('GET /api/v1/calls/{id}', { path, query: { content: 'own' }, signal })
      .then(({ arguments: args }) => args ?? recorded(), recorded)
      .then((args) => args && !signal.aborted && fill(args))
      .catch(() => undefined); // faults are shown with the outcome
    return () => controller.abort();
  }, [api]);
}

/** The call that the page shows: the one just made from it, else the kept call of its address. */
function useShownCall(tool: string, call: string | undefined) {
  const { api } = useSigned();
  const { state: made, run, cancel } = useCall(tool);
  const kept = useFollowedCall(call);
  const stop = () => {
    if (made.phase === 'running' || call === undefined) cancel();
    // A cancelled background call still ends with an outcome to show.
    else void api.cancel(call).catch(() => undefined);
  };
  // Of a call that waited for its result only the arguments are known; the form shows them.
  const followed: OutcomeState = kept.error?.code === 'NOT_FOUND' ? { phase: 'idle' } : toOutcome(kept);
  return { state: made.phase === 'idle' ? followed : made, run, stop };
}

/**
 * A form generated from a tool's schema, and the outcome of the call. A call in the background is part of the address (`call`), so
 * that it is shown again after a reload; the form starts with its arguments, or with the kept arguments of any other call.
 */
export function TryIt({ tool, call }: { tool: CatalogToolDetail; call: string | undefined }) {
  const entry = useArguments(tool);
  const [mode, setMode] = useState<RunMode>('background');
  const [session, setSession] = useState('');
  const { state, run, stop } = useShownCall(tool.name, call);
  useKeptArguments(call, entry.fill);
  const busy = state.phase === 'running';
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    const args = entry.read();
    if (!args) return;
    const id = await run(args, mode, session.trim());
    if (id !== call) location.replace(toAddress('tools', tool.name, id));
  };
  const refusal = whyNotCallable(tool);
  return (
    <section className="stack" aria-labelledby="try">
      <form className="card stack" onSubmit={(event) => void submit(event)} noValidate>
        <div className="row spread">
          <h2 id="try">Try it</h2>
          <Segments label="Way to fill in" value={entry.form} onChange={entry.switchTo} options={ENTRY_FORMS} />
        </div>
        {refusal !== undefined && (
          <Notice tone="warn" title="This tool cannot be called from here">
            <span>{refusal}</span>
          </Notice>
        )}
        <Examples tool={tool} onChoose={entry.fill} />
        <ArgumentFields entry={entry} />
        <Choice label="Mode" value={mode} onChange={(value) => setMode(value as RunMode)} options={MODES} />
        {tool.session_aware && (
          <TextInput
            label="Session (keeps state between calls) — optional"
            value={session}
            maxLength={255}
            onChange={setSession}
          />
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
      <CallOutcome state={state} tool={tool.name} />
    </section>
  );
}

const whyNotCallable = ({ not_callable_because: because, available }: CatalogToolDetail): string | undefined =>
  because?.reason ?? (available ? undefined : 'No executor currently serves it.');

function Examples(props: { tool: CatalogToolDetail; onChoose: (args: JsonObject) => void }) {
  const { input_examples: examples } = props.tool;
  if (examples.length === 0) return null;
  return (
    <div className="row">
      <span className="small soft">Examples</span>
      {examples.slice(0, 4).map((example, index) => (
        <button key={index} type="button" onClick={() => props.onChoose(example)}>
          {index + 1}
        </button>
      ))}
    </div>
  );
}

const AS_JSON = {
  name: '',
  label: 'Arguments as JSON',
  help: '',
  required: true,
  initial: '{}',
  input: { kind: 'json', example: '' },
} as const;

function ArgumentFields({ entry }: { entry: ReturnType<typeof useArguments> }) {
  const { fields, form, texts, setTexts, json, setJson, faults } = entry;
  if (form === 'json')
    return <FieldControl field={AS_JSON} marks="none" text={json} fault={faults['']} onChange={setJson} />;
  return <FieldControls fields={fields} texts={texts} faults={faults} onChange={setTexts} />;
}
