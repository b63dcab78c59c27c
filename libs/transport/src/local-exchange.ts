import { SUBJECTS } from '@toolfleet/contracts/subjects';
import type { IncomingMessage } from './codec.js';

/** Takes a message that was sent to its subscription. Never throws. */
type Receiver = (message: IncomingMessage) => void;

/** A subscription as NATS knows it: without a queue group it receives every message, with one it shares them with the group. */
interface Member {
  readonly subject: string;
  readonly queue: string | undefined;
  readonly receive: Receiver;
}

/**
 * Carries messages between the services of one process without a broker: give the same exchange to the NATS connections of the
 * services that share the process. A message stays in the process only if NATS could have delivered it there, and no other process
 * has to see it: a request to a queue group that the process serves, and messages to a private address (replies, progress). Everything
 * else, such as announcements and cancellations, goes to the server, so that several such processes work as one fleet.
 */
export class LocalExchange {
  readonly #exact = new Map<string, Member[]>();
  #patterns: (Member & Pattern)[] = [];

  /** Adds a subscription. @returns ends it */
  join(member: Member): () => void {
    const { subject } = member;
    if (/[*>]/.test(subject)) {
      const added = { ...member, ...patternOf(subject) };
      this.#patterns = [...this.#patterns, added];
      return () => (this.#patterns = this.#patterns.filter((other) => other !== added));
    }
    this.#exact.set(subject, [...(this.#exact.get(subject) ?? []), member]);
    return () => {
      const rest = (this.#exact.get(subject) ?? []).filter((other) => other !== member);
      if (rest.length > 0) this.#exact.set(subject, rest);
      else this.#exact.delete(subject);
    };
  }

  /** The receiver of this process for a message; undefined when it has to go to the server. */
  receiverOf(subject: string, isRequest: boolean): Receiver | undefined {
    const wild = this.#patterns.filter((pattern) => matches(pattern, subject));
    const exact = this.#exact.get(subject) ?? [];
    const members: readonly Member[] = wild.length === 0 ? exact : [...exact, ...wild];
    const [first] = members;
    // A second group, or a subscriber without one, has to receive its own copy.
    if (first === undefined || members.some(({ queue }) => queue !== first.queue)) return undefined;
    if (first.queue === undefined) return isPrivate(subject) ? first.receive : undefined;
    return isRequest ? members[Math.floor(Math.random() * members.length)]?.receive : undefined;
  }
}

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

/** Whether a subject is one of a subscription's, by the wildcards of NATS: `*` is one token, a final `>` one or more. */
function matches({ prefix, tokens: wanted }: Pattern, subject: string): boolean {
  if (!subject.startsWith(prefix)) return false;
  const tokens = subject.split('.');
  const isOpen = wanted.at(-1) === '>';
  if (isOpen ? tokens.length < wanted.length : tokens.length !== wanted.length) return false;
  return wanted.every((token, place) => token === '*' || token === '>' || token === tokens[place]);
}
