/**
 * Neighbouring releases in one fleet, as during an upgrade: what the previous release sent is accepted by today's services, and
 * what these send still has everything the previous readers rely on. The previous release is a recording,
 * `test/skew/messages-<release>.json`; `RECORD_MESSAGES=<release> npm run test:cluster -- test/cluster/version-skew` makes one.
 */
import { isToolError, type Json, type JsonObject } from '@toolfleet/contracts';
import type { BudgetReserveReply } from '@toolfleet/contracts/budget';
import type { ExecResponse } from '@toolfleet/contracts/execution';
import { closeRedis, connectRedis, JobQueue, openRedis, RedisTime } from '@toolfleet/queue';
import { SystemClock } from '@toolfleet/resilience';
import { compileSchema } from '@toolfleet/bounded-schema';
import { eventually } from '@toolfleet/testing';
import { NatsClient } from '@toolfleet/transport';
import type { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { EVERY_KIND, TOOLS_OF_EVERY_KIND } from '../fleet/every-kind.js';
import { startSampleServices, type SampleServices } from '../fleet/sample-services.js';
import { SERVICE_NAMES, TestFleet, type ServiceName } from '../fleet/test-fleet.js';
import { FORMS, reliedOn, without } from '../skew/message-shapes.js';
import {
  forSamples,
  MessageRecorder,
  messagesOf,
  readMessages,
  writeMessages,
  type Messages,
} from '../skew/recorded-messages.js';

const PREVIOUS = '0.1.0';
/** Refusals of a request that was read: what was registered then may be unknown now, and the sources of some were refused then, too. */
const READ_AND_REFUSED: ReadonlySet<string> = new Set(['NOT_FOUND', 'SOURCE_REFUSED', 'SPEC_INVALID']);

let samples: SampleServices;
let fleet: TestFleet;
let nats: NatsClient;
let previous: Messages;
/** Everything that was sent, by kind. */
let today: Record<string, Json[]>;
beforeAll(async () => {
  samples = await startSampleServices();
  fleet = await TestFleet.start({
    services: { budget: 1 },
    tools: [],
    config: samples.config,
    env: {
      ...samples.env,
      BUILTIN_TOOLSETS: 'compute,web,files,agent',
      BUILTIN_COSTS_MICRO_USD: 'calculator=1',
      GATEWAY_CALL_SPOOL: '1000',
    },
  });
  nats = await NatsClient.connect({ name: 'spec', url: fleet.nats.url });
  const recorder = new MessageRecorder(nats);
  // Started after the recorder: announcements and discovery are also messages.
  for (const name of SERVICE_NAMES) if (name !== 'budget') await fleet.launch(name);
  await fleet.untilListed(TOOLS_OF_EVERY_KIND);
  for (const [, run] of EVERY_KIND) await run({ fleet, nats, samples, subjectOf: (verb) => `tool.${verb}` });
  await eventually('a shared lease has admitted calls, and has ended', () => leaseCalls(recorder));
  await recorder.readQueues(fleet.redis.client() as Redis);
  today = recorder.stop(samples);
  const release = process.env['RECORD_MESSAGES'];
  if (release) await writeMessages(release, messagesOf(today));
  previous = await readMessages(PREVIOUS);
});
afterAll(async () => {
  await nats?.close();
  await fleet?.stop();
  await samples?.stop();
});

/** Makes the tenant busy, so that it gets shared leases. No two calls are equal, so that each of them is admitted. */
async function leaseCalls(recorder: MessageRecorder): Promise<boolean> {
  const calls = Array.from({ length: 50 }, () => `${(expressions += 1)} * 3`);
  await Promise.all(calls.map((expression) => fleet.call('calculator', { expression })));
  return recorder.hasSent('budget.reserve', '"shared":') && recorder.hasSent('budget.settle', '"call_id":"lease:');
}
let expressions = 0;

/** The service that sends a kind of message; the first pattern that matches counts. */
const SENDERS: readonly [RegExp, ServiceName][] = [
  [/^budget\..* reply$/, 'budget'],
  [/^registry\..* reply$|^registry\.definition\.(announce|changed)$|^exec\.mcp\.discover$/, 'registry'],
  [/^exec\.builtin\..* reply$|^registry\.definition\.register\./, 'builtin-executor'],
  [/^exec\.mcp.* reply$|^exec\.progress$|^fleet\.status$/, 'mcp-executor'],
  [/^exec\.openapi reply$/, 'openapi-executor'],
  [/^records\..* reply$|^event\./, 'records'],
  [/./, 'gateway'],
];
const senderOf = (kind: string): ServiceName => SENDERS.find(([pattern]) => pattern.test(kind))![1];

/** What of these messages the previous readers could not read, of kinds that a service of this name sends, and forms that none has. */
function unreadable(messages: Readonly<Record<string, Json[]>>, sender?: ServiceName): string[] {
  const kinds = Object.entries(previous).filter(([kind]) => sender === undefined || senderOf(kind) === sender);
  return kinds.flatMap(([kind, { shape }]) => {
    const reader = compileSchema(shape);
    const all = messages[kind] ?? [];
    const bodies = all.filter((body) => !reader.check(body));
    const forms = reliedOn(shape).filter((way) => FORMS.includes(way.at(-1)!));
    const lost = forms.filter((way) => all.length > 0 && all.every((body) => without(body, way) === undefined));
    return [
      ...bodies.map((body) => `${kind} ${JSON.stringify(body).slice(0, 300)}`),
      ...lost.map((way) => `${kind} never has ${way.join('.')}`),
    ];
  });
}

describe('a fleet of two releases', () => {
  it('sends every kind of message that the previous release sent', () => {
    expect(Object.keys(previous).filter((kind) => !(kind in today))).toEqual([]);
  });

  // In the order of docs/runbooks/upgrade-and-rollback.md: those that come later are still of the previous release. The sandbox sends no
  // messages: it answers in the record of the job.
  it.each(SERVICE_NAMES.filter((name) => SENDERS.some(([, sender]) => sender === name)))(
    'of which %s is upgraded next sends nothing the previous readers could not read',
    (name) => {
      expect(unreadable(today, name)).toEqual([]);
    },
  );

  it('would be found to send no more a field that the previous readers rely on', () => {
    const tried = Object.entries(previous).flatMap(([kind, { shape }]) =>
      reliedOn(shape).flatMap((way) => {
        const changed = today[kind]!.map((body) => without(body, way) ?? body);
        // Lists may be empty in all messages.
        const isThere = changed.some((body, at) => body !== today[kind]![at]);
        return isThere ? [{ way: `${kind}: ${way.join('.')}`, found: unreadable({ [kind]: changed }).length > 0 }] : [];
      }),
    );
    expect(tried.length).toBeGreaterThan(500);
    expect(tried.filter(({ found }) => !found).map(({ way }) => way)).toEqual([]);
  });

  it.each<[string, (message: JsonObject) => JsonObject]>([
    ['a field with another name', ({ call_id: id, ...rest }) => ({ ...rest, callId: id! })],
    ['a number as a text', (message) => ({ ...message, fence: String(message['fence']) })],
    ['a context without its tenant', (message) => ({ ...message, context: {} })],
  ])('would be found to send %s', (_what, change) => {
    const changed = (today['exec.builtin.compute'] as JsonObject[]).map(change);
    expect(unreadable({ 'exec.builtin.compute': changed })).toHaveLength(changed.length);
  });

  it('takes attempts of the previous gateway', async () => {
    for (const kind of Object.keys(previous).filter((name) => /^exec\.(builtin\.compute|mcp|openapi)$/.test(name))) {
      for (const sample of previous[kind]!.samples as JsonObject[]) {
        // A journalled attempt needs its entry in the journal, now gone.
        if (sample['journalled'] === true) continue;
        const reply = await replay<ExecResponse>(kind, sample);
        expect(reply, `${kind} ${JSON.stringify(sample).slice(0, 200)}`).toMatchObject({ ok: true });
      }
    }
  });

  it('reads every request of the previous release', async () => {
    // These need their lost call, or are asked below.
    const kinds = Object.keys(previous).filter((kind) => `${kind} reply` in previous && !/^(exec|tool)\./.test(kind));
    const refused: string[] = [];
    for (const kind of kinds)
      for (const sample of previous[kind]!.samples) {
        const failure = await replay(kind, sample).then(
          () => undefined,
          (error: unknown) => (isToolError(error) ? error.code : String(error)),
        );
        if (failure !== undefined && !READ_AND_REFUSED.has(failure))
          refused.push(`${kind} ${failure} ${JSON.stringify(sample).slice(0, 300)}`);
      }
    expect(refused).toEqual([]);
  });

  it('reserves and settles for the previous gateway', async () => {
    for (const sample of previous['budget.reserve']!.samples) {
      const { answers } = await replay<BudgetReserveReply>('budget.reserve', renamed(sample));
      expect(answers.filter(({ admitted }) => !admitted)).toEqual([]);
    }
    for (const sample of previous['budget.settle']!.samples)
      expect(await replay('budget.settle', sample)).not.toHaveProperty('refused');
  });

  it('calls tools for clients of the previous release', async () => {
    // Files that were read then are not here.
    const calls = (previous['tool.call']!.samples as { name: string }[]).filter(
      ({ name }) => !name.startsWith('file_'),
    );
    expect(calls.length).toBeGreaterThan(0);
    for (const { name, ...rest } of calls) {
      const sample = { name, ...rest } as JsonObject;
      expect(await replay('tool.call', sample), name).toSatisfy(
        (body: JsonObject) => body['success'] === true || body['status'] === 'accepted',
      );
    }
  });

  it('runs jobs that the previous gateway queued', async () => {
    const redis = connectRedis(fleet.redis.url, { name: 'spec' });
    await openRedis(redis, fleet.redis.url);
    const time = new RedisTime(redis, new SystemClock());
    await time.refresh();
    const queue = new JobQueue({ name: 'python-runs', redis, time });
    // Not the one that was cancelled: it would run until its time is over.
    const programs = previous['job python-runs']!.samples.filter((job) => !JSON.stringify(job).includes('while True'));
    for (const [index, sample] of programs.entries()) {
      const now = time.now();
      const times = { queued_at: now - 30_000, deadline_at: now + 60_000 };
      await queue.add(`skew-${index}-1`, { ...(sample as JsonObject), call_id: `skew-${index}`, ...times });
      // Its gateway says while it waits that the job may start: no other job starts that has waited for long.
      const ended = async () => {
        await queue.vouch([`skew-${index}-1`]);
        return ['completed', 'failed'].includes((await queue.record(`skew-${index}-1`)).state);
      };
      await eventually('the job has ended', ended, { everyMs: 100 });
      expect(await queue.record(`skew-${index}-1`), JSON.stringify(sample)).toMatchObject({ state: 'completed' });
    }
    await queue.close();
    await closeRedis(redis);
  });
});

function replay<T>(subject: string, body: Json): Promise<T> {
  return nats.request<T>(subject, forSamples(body, samples), {
    timeoutMs: 20_000,
    headers: { Authorization: `Bearer ${fleet.adminKey}` },
  });
}

/** The same ask for another call: those that were recorded are charged. */
function renamed(body: Json): Json {
  return JSON.parse(JSON.stringify(body).replace(/"call_id":"([^"]+)"/g, '"call_id":"$1-again"')) as Json;
}
