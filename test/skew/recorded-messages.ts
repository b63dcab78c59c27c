/** Records what a running fleet sends over NATS and puts into its queues, by kind of message. */
import { readFile, writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { isJsonObject, type Json, type JsonObject } from '@toolfleet/contracts';
import { QUEUES } from '@toolfleet/contracts/subjects';
import type { NatsClient } from '@toolfleet/transport';
import type { Redis } from 'ioredis';
import type { SampleServices } from '../fleet/sample-services.js';
import { shapeOf } from './message-shapes.js';

/** Messages of one kind: `exec.builtin.compute`, `budget.reserve reply`, `job python-runs`. */
export interface MessageKind {
  shape: JsonObject;
  samples: Json[];
}

/** Kinds by name. */
export type Messages = Record<string, MessageKind>;

const MOST_SAMPLES = 3;
/** A sample longer than this says nothing that its shape does not say. */
const LONGEST_SAMPLE = 6_000;
/** Last words of subjects that name a tenant, a process or a call. */
const FAMILIES = /^(tool\.(?:call|batch|list|cancel|result)|exec\.progress|exec\.mcp\.resume|mcp\.answer)\..+$/;

/** Requesters check for a refusal first: it has one form for all subjects. */
const isRefusal = (body: Json): boolean =>
  isJsonObject(body) && ['error', 'code', 'hint'].every((field) => typeof body[field] === 'string');

const kindOf = (subject: string): string => subject.replace(FAMILIES, '$1').replace(/^event\.[^.]+\./, 'event.');

/** Listens until `stop` returns the messages. */
export class MessageRecorder {
  private readonly bodies = new Map<string, Json[]>();
  private readonly replyTo = new Map<string, string>();
  private readonly stopListening: () => void;

  constructor(nats: NatsClient) {
    const subscription = nats.link.subscribe('>', ({ subject, reply, data }) => {
      if (data.length === 0) return;
      const asked = this.replyTo.get(subject);
      if (reply !== '' && !subject.startsWith('_INBOX')) this.replyTo.set(reply, subject);
      const kind = asked === undefined ? kindOf(subject) : `${kindOf(asked)} reply`;
      if (kind.startsWith('_INBOX') || kind.startsWith('$')) return;
      const body = JSON.parse(Buffer.from(data).toString('utf8')) as Json;
      this.keep(asked !== undefined && isRefusal(body) ? 'refusal' : kind, body);
    });
    this.stopListening = () => subscription.unsubscribe();
  }

  /** Jobs in the queues, finished ones included. */
  async readQueues(redis: Redis): Promise<void> {
    for (const queue of Object.values(QUEUES)) {
      for (const key of await redis.keys(`{fleet}:${queue}:*-*`)) {
        if ((await redis.type(key)) !== 'hash') continue;
        const data = await redis.hget(key, 'data');
        if (data) this.keep(`job ${queue}`, JSON.parse(data) as Json);
      }
    }
  }

  /** Whether a message of this kind was sent that has this text. */
  hasSent(kind: string, text: string): boolean {
    return (this.bodies.get(kind) ?? []).some((body) => JSON.stringify(body).includes(text));
  }

  /** What was recorded, by kind; origins of the samples are replaced by names, tokens are taken out. */
  stop(samples: SampleServices): Record<string, Json[]> {
    this.stopListening();
    const kinds = [...this.bodies].toSorted(([a], [b]) => (a < b ? -1 : 1));
    return Object.fromEntries(
      kinds.map(([kind, bodies]) => [kind, bodies.map((body) => withoutTokens(withNames(body, samples)))]),
    );
  }

  private keep(kind: string, body: Json): void {
    const kept = this.bodies.get(kind) ?? [];
    kept.push(body);
    this.bodies.set(kind, kept);
  }
}

/** What is kept of recorded bodies. */
export function messagesOf(bodies: Readonly<Record<string, Json[]>>): Messages {
  return Object.fromEntries(
    Object.entries(bodies).map(([kind, list]) => [kind, { shape: shapeOf(list), samples: shortest(list) }]),
  );
}

/** Short ones say the same as long ones. */
function shortest(bodies: readonly Json[]): Json[] {
  const texts = [...new Set(bodies.map((body) => JSON.stringify(body)))].toSorted((a, b) => a.length - b.length);
  const short = texts.filter((text) => text.length <= LONGEST_SAMPLE);
  return short.slice(0, MOST_SAMPLES).map((text) => JSON.parse(text) as Json);
}

const ORIGINS = ['api', 'mcp', 'model'] as const;

const withoutTokens = (body: Json): Json =>
  JSON.parse(JSON.stringify(body).replace(/("delegation_token":")[^"]*"/g, '$1"')) as Json;

/** A recording without the addresses of its samples. */
export function withNames<T>(body: T, samples: SampleServices): T {
  let text = JSON.stringify(body);
  for (const name of ORIGINS) text = text.replaceAll(samples[name], `http://${name}.sample`);
  return JSON.parse(text) as T;
}

/** A recording for the samples that run now. */
export function forSamples<T>(body: T, samples: SampleServices): T {
  let text = JSON.stringify(body);
  for (const name of ORIGINS) text = text.replaceAll(`http://${name}.sample`, samples[name]);
  return JSON.parse(text) as T;
}

const fileOf = (release: string): string => fileURLToPath(new URL(`./messages-${release}.json`, import.meta.url));

/** What a release sent. */
export async function readMessages(release: string): Promise<Messages> {
  return JSON.parse(await readFile(fileOf(release), 'utf8')) as Messages;
}

export async function writeMessages(release: string, messages: Messages): Promise<void> {
  await writeFile(fileOf(release), `${JSON.stringify(messages, null, 1)}\n`);
}
