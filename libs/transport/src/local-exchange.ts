import { SUBJECTS } from '@toolfleet/contracts/subjects';
import type { IncomingMessage } from './codec.js';

/** Takes a message that was sent to its subscription. Never throws. */
type LocalReceiver = (message: IncomingMessage) => void;

/** A subscription as NATS knows it: without a queue group it receives every message, with one it shares them with the group. */
interface LocalMember {
  readonly subject: string;
  readonly queue: string | undefined;
  readonly receive: LocalReceiver;
}

/**
 * Carries messages between the services of one process without a broker: give the same exchange to the NATS connections of the
 * services that share the process. A message stays in the process only if NATS could have delivered it there, and no other process
 * has to see it: a request to a queue group that the process serves, and messages to a private address (replies, progress). Everything
 * else, such as announcements and cancellations, goes to the server, so that several such processes work as one fleet.
 */
export class LocalExchange {
  readonly #exact = new LocalMembers();
  /** Subscriptions to `<prefix>.*`, such as an inbox, by their prefix. */
  readonly #children = new LocalMembers();
  #patterns: (LocalMember & Pattern)[] = [];

  /** Adds a subscription. @returns ends it */
  join(member: LocalMember): () => void {
    const { subject } = member;
    if (!/[*>]/.test(subject)) return this.#exact.add(subject, member);
    if (/^[^*>]+\.\*$/.test(subject)) return this.#children.add(subject.slice(0, -1), member);
    const added = { ...member, ...patternOf(subject) };
    this.#patterns = [...this.#patterns, added];
    return () => (this.#patterns = this.#patterns.filter((other) => other !== added));
  }

  /** The receiver of this process for a message; undefined when it has to go to the server. */
  receiverOf(subject: string, isRequest: boolean): LocalReceiver | undefined {
    let members = this.#exact.get(subject) ?? NONE;
    const children = this.#children.get(subject.slice(0, subject.lastIndexOf('.') + 1)) ?? NONE;
    if (children.length > 0) members = members.length === 0 ? children : [...members, ...children];
    for (const pattern of this.#patterns)
      if (subject.startsWith(pattern.prefix) && matches(pattern, subject)) members = [...members, pattern];
    const [first] = members;
    // A second group, or a subscriber without one, has to receive its own copy.
    if (first === undefined || (members.length > 1 && members.some(({ queue }) => queue !== first.queue)))
      return undefined;
    if (first.queue === undefined) return isPrivate(subject) ? first.receive : undefined;
    return isRequest ? members[Math.floor(Math.random() * members.length)]?.receive : undefined;
  }
}

/** Subscriptions by a text. */
class LocalMembers extends Map<string, readonly LocalMember[]> {
  /** @returns ends the subscription */
  add(key: string, member: LocalMember): () => void {
    this.set(key, [...(this.get(key) ?? NONE), member]);
    return () => {
      const rest = this.get(key)?.filter((other) => other !== member) ?? NONE;
      if (rest.length > 0) this.set(key, rest);
      else this.delete(key);
    };
  }
}

const NONE: readonly LocalMember[] = [];

/** Addresses with a random name that only their one subscriber and those it asks know. */
function isPrivate(subject: string): boolean {
  return subject.startsWith('_INBOX.') || subject.startsWith(`${SUBJECTS.execProgress}.`);
}

/** A subscription with wildcards: the text before the first one, and all tokens. */
interface Pattern {
  readonly prefix: string;
  readonly tokens: readonly string[];
}

const patternOf = (subject: string): Pattern => ({
  prefix: subject.slice(0, subject.search(/[*>]/)),
  tokens: subject.split('.'),
});

/** Whether a subject that begins with the prefix is one of a subscription's, by the wildcards of NATS: `*` is one token, a final `>` one or more. */
function matches({ tokens: wanted }: Pattern, subject: string): boolean {
  const tokens = subject.split('.');
  const isOpen = wanted.at(-1) === '>';
  if (isOpen ? tokens.length < wanted.length : tokens.length !== wanted.length) return false;
  return wanted.every((token, place) => token === '*' || token === '>' || token === tokens[place]);
}
