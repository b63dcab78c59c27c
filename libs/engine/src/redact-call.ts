import { isJsonObject, type Json } from '@toolfleet/contracts';
import { isRandomText } from '@toolfleet/contracts/secret-names';
import type { RegisteredTool } from '@toolfleet/contracts/tool-definition';
import type { AuditRecord, ShownCall } from './ports.js';

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

/** Stands for the name of a tool that does not exist, unless it looks like a name: a caller may have written anything there. */
const UNKNOWN_TOOL = '[unknown]';
/** Names of tools, and quotations of one in messages. */
const NAME = /^[A-Za-z][\w.:-]{1,63}$/;
const QUOTED = /\btool '([^'\s]{2,64})'/gi;
const KEY = /^[srp]k[-_]|^(?:AKIA|ASIA|AIza|eyJ)|^(?:gh[a-z]|npm|xox[a-z]|glpat|github_pat)[-_][A-Za-z0-9]{20}/;

/** Long texts with digits and letters of both cases are keys rather than names. */
const MIXED = /^(?=.*\d)(?=.*[a-z])(?=.*[A-Z]).{16}/;

/** Whether a text can be the name of a tool and does not look like a key. Such a name is public. */
const isName = (text: string): boolean =>
  NAME.test(text) && !KEY.test(text) && !MIXED.test(text) && !isRandomText(text);

/** The name of a call's tool for logs, records and spans: of a tool that does not exist, the one that was asked for. */
export function recordedTool({ tool, request }: Pick<ShownCall, 'tool' | 'request'>): string {
  const { toolName } = request.target;
  return tool?.name ?? (isName(toolName) ? toolName : UNKNOWN_TOOL);
}

const redacted = new WeakMap<AuditRecord, string>();

/** The redacted message of a failed call, or undefined for a call without an error; computed once per record. */
export function redactedError(record: AuditRecord): string | undefined {
  if (record.error === undefined) return undefined;
  let text = redacted.get(record);
  if (text === undefined) {
    text = redactCall(record.error, record.call);
    redacted.set(record, text);
  }
  return text;
}

/**
 * Masks the caller's words in a message about its call: arguments, and names of arguments that the tool does not have. Names of tools
 * stay, also of those that do not exist. Tools and upstreams quote them in their errors, and people who read logs may not be allowed
 * to read calls. Masks whole strings and every run of 16 characters of one of them. Message and strings are cut before they are
 * compared, so the time is bounded for any input.
 */
export function redactCall(message: string, { request, tool }: ShownCall): string {
  // One run more than is returned, so that a run that the cut splits is still masked.
  const shown = message.slice(0, MAX_MESSAGE + RUN);
  const hidden = new Uint8Array(shown.length);
  const texts = comparedTexts(tool ? [] : [request.target.toolName], request.input.rawArguments, knownNames(tool));
  for (const text of texts) hideOccurrences(shown, text, hidden);
  hideRuns(shown, texts, hidden);
  for (const name of toolNames(shown, tool?.name ?? request.target.toolName)) showOccurrences(shown, name, hidden);
  const masked = withMasks(shown, hidden, Math.min(shown.length, MAX_MESSAGE));
  return message.length > MAX_MESSAGE ? `${masked}…` : masked;
}

function hideOccurrences(message: string, text: string, hidden: Uint8Array, mark = 1): void {
  for (let at = message.indexOf(text); at >= 0; at = message.indexOf(text, at + text.length)) {
    hidden.fill(mark, at, at + text.length);
  }
}

/** Names that a message may show: the tool of the call, and quoted names of tools. */
function toolNames(message: string, own: string): Set<string> {
  const quoted = [...message.matchAll(QUOTED)].map(([, name]) => name!);
  return new Set([own, ...quoted].filter(isName));
}

/** The name of a tool is public, also where an argument contains it. */
const showOccurrences = (message: string, name: string, hidden: Uint8Array): void =>
  hideOccurrences(message, name, hidden, 0);

function hideRuns(message: string, texts: ReadonlySet<string>, hidden: Uint8Array): void {
  const startsByRun = new Map<string, number[]>();
  const isKnown = new Uint8Array(HASHES);
  for (let at = 0, hash = 0; at + RUN <= message.length; at += 1) {
    hash = hashOfRun(message, at, hash);
    isKnown[slotOf(hash)] = 1;
    const run = message.slice(at, at + RUN);
    const starts = startsByRun.get(run);
    if (starts) starts.push(at);
    else startsByRun.set(run, [at]);
  }
  for (const text of texts) {
    for (let at = 0, hash = 0; at + RUN <= text.length; at += 1) {
      hash = hashOfRun(text, at, hash);
      if (isKnown[slotOf(hash)] === 0) continue;
      const run = text.slice(at, at + RUN);
      const starts = startsByRun.get(run);
      if (!starts) continue;
      for (const start of starts) hidden.fill(1, start, start + RUN);
      startsByRun.delete(run);
    }
  }
}

const HASHES = 2 ** 16;
const FACTOR = 0x01000193;
/** Factor of the first character in the hash of a run. */
const FIRST_FACTOR = Array.from({ length: RUN - 1 }).reduce<number>((power) => Math.imul(power, FACTOR), 1);
const slotOf = (hash: number): number => (hash ^ (hash >>> 16)) & (HASHES - 1);

/**
 * The hash of the run at `at`, from the hash of the one before it (Rabin-Karp). Nearly all runs of an argument are not in the message, and
 * to look up their hashes takes a twentieth of the time of looking up the runs.
 */
function hashOfRun(text: string, at: number, before: number): number {
  if (at > 0) {
    const rest = before - Math.imul(text.charCodeAt(at - 1), FIRST_FACTOR);
    return (Math.imul(rest, FACTOR) + text.charCodeAt(at + RUN - 1)) | 0;
  }
  let hash = 0;
  for (let next = 0; next < RUN; next += 1) hash = (Math.imul(hash, FACTOR) + text.charCodeAt(next)) | 0;
  return hash;
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
 * The given texts, and the strings and unknown names of a value, cut to `MAX_COMPARED` in total. Iterative, because arguments that
 * were refused may be nested to any depth. Stops at the limit, so that the rest of a large value is not visited.
 */
function comparedTexts(given: readonly string[], value: Json, known: ReadonlySet<string>): Set<string> {
  const texts = new Set<string>();
  let left = MAX_COMPARED;
  const compare = (text: string): void => {
    if (text.length < MIN_VALUE || left <= 0) return;
    texts.add(text.slice(0, left));
    left -= text.length;
  };
  for (const text of given) compare(text);
  const open: Json[] = [value];
  for (let seen = 0; seen < MAX_VALUES && left > 0; seen += 1) {
    const item = open.pop();
    if (item === undefined) break;
    if (typeof item === 'string') compare(item);
    else if (Array.isArray(item)) {
      for (const member of item.slice(0, MAX_VALUES)) if (isText(member)) open.push(member);
    } else if (isJsonObject(item)) {
      let members = 0;
      for (const name in item) {
        if (left <= 0 || (members += 1) > MAX_VALUES) break;
        if (!known.has(name)) compare(name);
        const member = item[name];
        if (isText(member)) open.push(member);
      }
    }
  }
  return texts;
}

/** Whether a value is a text or may contain one. */
const isText = (value: Json | undefined): value is Json =>
  typeof value === 'string' || (typeof value === 'object' && value !== null);

const NO_NAMES: ReadonlySet<string> = new Set();
const namesByTool = new WeakMap<Pick<RegisteredTool, 'input_schema'>, ReadonlySet<string>>();

/** Every name in the input schema of a tool, keywords included: messages about its arguments may show them. */
function knownNames(tool: Pick<RegisteredTool, 'input_schema'> | undefined): ReadonlySet<string> {
  if (!tool) return NO_NAMES;
  let names = namesByTool.get(tool);
  if (!names) {
    const found = new Set<string>();
    const open: Json[] = [tool.input_schema];
    for (let part = open.pop(); part !== undefined; part = open.pop()) {
      if (isJsonObject(part)) for (const name of Object.keys(part)) found.add(name);
      if (typeof part === 'object' && part !== null) open.push(...Object.values(part));
    }
    namesByTool.set(tool, (names = found));
  }
  return names;
}
