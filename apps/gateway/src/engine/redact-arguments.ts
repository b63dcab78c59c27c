import { isJsonObject, type Json } from '@toolfleet/contracts';

const MASK = '[argument]';
/** A whole argument is masked from this length on. */
const LEAST_VALUE = 6;
/** A part of an argument, as a program or an encoded URL shows it, from this length on. */
const RUN = 16;
/** Longest message that is returned, in UTF-16 units. */
const MAX_MESSAGE = 4_096;
/** UTF-16 units of arguments that are compared with a message; the rest is not. */
const MAX_COMPARED = 64 * 1024;
/** Values that are looked at in search of texts: a body of a megabyte may hold half a million numbers. */
const MAX_VALUES = 250_000;

/**
 * A message without what the caller had sent: tools and upstreams quote arguments in their errors, and logs are read by
 * people who may not read calls. Masks whole texts of the arguments and every run of 16 characters of one of them.
 * Message and arguments are cut before anything is compared, so the time is bounded whatever the caller sent.
 */
export function redactArguments(message: string, args: Json | undefined): string {
  // One run more than is returned: what the cut would split is masked as a whole, or lies in the part that is dropped.
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
  const startsOf = new Map<string, number[]>();
  for (let at = 0; at + RUN <= message.length; at += 1) {
    const run = message.slice(at, at + RUN);
    const starts = startsOf.get(run);
    if (starts) starts.push(at);
    else startsOf.set(run, [at]);
  }
  for (const text of texts) {
    for (let at = 0; at + RUN <= text.length; at += 1) {
      const run = text.slice(at, at + RUN);
      const starts = startsOf.get(run);
      if (!starts) continue;
      for (const start of starts) hidden.fill(1, start, start + RUN);
      startsOf.delete(run);
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
 * The texts of a value that are compared, cut to `MAX_COMPARED` in total. Without recursion: refused arguments may be nested
 * at any depth.
 */
function comparedTexts(value: Json | undefined): Set<string> {
  const texts = new Set<string>();
  const open = value === undefined ? [] : [value];
  let left = MAX_COMPARED;
  for (let seen = 0; seen < MAX_VALUES && left > 0; seen += 1) {
    const item = open.pop();
    if (item === undefined) break;
    if (typeof item === 'string') {
      if (item.length < LEAST_VALUE) continue;
      texts.add(item.slice(0, left));
      left -= item.length;
    } else if (Array.isArray(item) || isJsonObject(item)) {
      for (const member of Object.values(item).slice(0, MAX_VALUES)) open.push(member);
    }
  }
  return texts;
}
