import { isJsonObject, type Json } from '@toolfleet/contracts';
import type { AuditRecord } from '@toolfleet/engine';

const MASK = '[argument]';
/** Shortest string argument that is masked as a whole, in UTF-16 units. */
const MIN_VALUE = 6;
/** Shortest part of an argument that is masked: programs and encoded URLs show parts of their input. */
const RUN = 16;
/** Longest message that is returned, in UTF-16 units. */
const MAX_MESSAGE = 4_096;
/** UTF-16 units of the arguments that are compared with a message. */
const MAX_COMPARED = 64 * 1024;
/** JSON values searched for strings: a body of one megabyte can contain half a million numbers. */
const MAX_VALUES = 250_000;

const redacted = new WeakMap<AuditRecord, string>();

/** The redacted message of a failed call, or undefined for a call without an error; computed once per record. */
export function redactedError(record: AuditRecord): string | undefined {
  if (record.error === undefined) return undefined;
  let text = redacted.get(record);
  if (text === undefined) {
    text = redactArguments(record.error, record.call.request.rawArguments);
    redacted.set(record, text);
  }
  return text;
}

/**
 * Masks the caller's arguments in a message. Tools and upstreams quote arguments in their errors, and people who read logs may
 * not be allowed to read calls. Masks whole strings of the arguments and every run of 16 characters of one of them. Message and
 * arguments are cut before they are compared, so the time is bounded for any input.
 */
export function redactArguments(message: string, args: Json | undefined): string {
  // One run more than is returned, so that a run that the cut splits is still masked.
  const shown = message.slice(0, MAX_MESSAGE + RUN);
  const hidden = new Uint8Array(shown.length);
  const texts = comparedTexts(args);
  for (const text of texts) hideOccurrences(shown, text, hidden);
  hideRuns(shown, texts, hidden);
  const masked = withMasks(shown, hidden, Math.min(shown.length, MAX_MESSAGE));
  return message.length > MAX_MESSAGE ? `${masked}…` : masked;
}

function hideOccurrences(message: string, text: string, hidden: Uint8Array): void {
  for (let at = message.indexOf(text); at >= 0; at = message.indexOf(text, at + text.length)) {
    hidden.fill(1, at, at + text.length);
  }
}

function hideRuns(message: string, texts: ReadonlySet<string>, hidden: Uint8Array): void {
  if (message.length < RUN) return;
  const startsByRun = new Map<string, number[]>();
  for (let at = 0; at + RUN <= message.length; at += 1) {
    const run = message.slice(at, at + RUN);
    const starts = startsByRun.get(run);
    if (starts) starts.push(at);
    else startsByRun.set(run, [at]);
  }
  for (const text of texts) {
    for (let at = 0; at + RUN <= text.length; at += 1) {
      const run = text.slice(at, at + RUN);
      const starts = startsByRun.get(run);
      if (!starts) continue;
      for (const start of starts) hidden.fill(1, start, start + RUN);
      startsByRun.delete(run);
    }
  }
}

function withMasks(message: string, hidden: Uint8Array, length: number): string {
  let result = '';
  for (let at = 0; at < length;) {
    const isHidden = hidden[at] === 1;
    let end = at + 1;
    while (end < length && (hidden[end] === 1) === isHidden) end += 1;
    result += isHidden ? MASK : message.slice(at, end);
    at = end;
  }
  return result;
}

/**
 * The strings of a value, cut to `MAX_COMPARED` in total. Iterative, because arguments that were refused may be nested to any
 * depth.
 */
function comparedTexts(value: Json | undefined): Set<string> {
  const texts = new Set<string>();
  const open = value === undefined ? [] : [value];
  let left = MAX_COMPARED;
  for (let seen = 0; seen < MAX_VALUES && left > 0; seen += 1) {
    const item = open.pop();
    if (item === undefined) break;
    if (typeof item === 'string') {
      if (item.length < MIN_VALUE) continue;
      texts.add(item.slice(0, left));
      left -= item.length;
    } else if (Array.isArray(item) || isJsonObject(item)) {
      for (const member of Object.values(item).slice(0, MAX_VALUES)) open.push(member);
    }
  }
  return texts;
}
