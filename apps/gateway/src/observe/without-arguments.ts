import { isJsonObject, type Json } from '@toolfleet/contracts';

const MASK = '[argument]';
/** A whole argument is masked from this length on. */
const LEAST_VALUE = 6;
/** A part of an argument, as a program or an encoded URL shows it, from this length on. */
const RUN = 16;
/** Of larger arguments the rest is not compared: what is logged of a message is short. */
const MAX_COMPARED = 256 * 1024;

/**
 * A message without what the caller had sent: tools and upstreams quote arguments in their errors, and logs are read by
 * people who may not read calls. Masks whole texts of the arguments and every run of 16 characters that stands in one.
 */
export function withoutArguments(message: string, args: Json | undefined): string {
  const texts = [...textsOf(args)].filter((text) => text.length >= LEAST_VALUE);
  if (texts.length === 0) return message;
  let masked = message;
  for (const text of texts.toSorted((a, b) => b.length - a.length)) masked = masked.replaceAll(text, MASK);
  return withoutRuns(masked, texts);
}

function withoutRuns(message: string, texts: readonly string[]): string {
  if (message.length < RUN) return message;
  const startsOf = new Map<string, number[]>();
  for (let at = 0; at + RUN <= message.length; at += 1) {
    const run = message.slice(at, at + RUN);
    startsOf.set(run, [...(startsOf.get(run) ?? []), at]);
  }
  const hidden = new Set<number>();
  let left = MAX_COMPARED;
  for (const text of texts) {
    const compared = text.slice(0, left);
    left -= compared.length;
    for (let at = 0; at + RUN <= compared.length; at += 1) {
      const run = compared.slice(at, at + RUN);
      for (const start of startsOf.get(run) ?? []) for (let i = start; i < start + RUN; i += 1) hidden.add(i);
      startsOf.delete(run);
    }
  }
  if (hidden.size === 0) return message;
  let result = '';
  for (let at = 0; at < message.length; at += 1) {
    if (!hidden.has(at)) result += message[at];
    else if (!hidden.has(at - 1)) result += MASK;
  }
  return result;
}

/** Every text in a value; without recursion, for refused arguments may be nested at any depth. */
function* textsOf(value: Json | undefined): Generator<string> {
  const open = value === undefined ? [] : [value];
  for (let item = open.pop(); item !== undefined; item = open.pop()) {
    if (typeof item === 'string') yield item;
    else if (Array.isArray(item) || isJsonObject(item)) for (const member of Object.values(item)) open.push(member);
  }
}
