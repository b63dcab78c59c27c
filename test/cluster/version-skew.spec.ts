/**
 * Neighbouring releases in one fleet, as during an upgrade: what the previous release sent is accepted by today's services, and
 * what these send still has everything the previous readers rely on. The previous release is a recording,
 * `test/skew/messages-<release>.json`; `RECORD_MESSAGES=<release> npm run test:cluster -- test/cluster/version-skew` makes one.
 */
import { isToolError, type Json, type JsonObject } from '@toolfleet/contracts';
import type { ExecResponse } from '@toolfleet/contracts/execution';
import { registerSubject } from '@toolfleet/contracts/subjects';
import { TOOLSETS } from '@toolfleet/contracts/tool-definition';
import { closeRedis, connectRedis, JobQueue, openRedis, RedisTime } from '@toolfleet/queue';
import { SystemClock } from '@toolfleet/resilience';
import { compileSchema } from '@toolfleet/schema';
import { eventually } from '@toolfleet/testing';
import { NatsClient } from '@toolfleet/transport';
import type { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { EVERY_KIND, TOOLS_OF_EVERY_KIND } from '../fleet/every-kind.js';
import { startSampleServices, type SampleServices } from '../fleet/sample-services.js';
import { SERVICE_NAMES, TestFleet, type ServiceName } from '../fleet/test-fleet.js';
import { forSamples, MessageRecorder, readMessages, writeMessages, type Messages } from '../skew/recorded-messages.js';

const PREVIOUS = '0.1.0';
/** Kinds that must be in a recording, or it would say nothing. */
const EXPECTED = [
  'budget.reserve',
  'budget.reserve reply',
  'budget.settle',
  'exec.builtin.compute',
  'exec.builtin.compute reply',
  'exec.mcp',
  'exec.mcp reply',
  'exec.openapi',
  'job agent-runs',
  'job python-runs',
  'job tool-calls',
  'registry.definition.get',
  ...TOOLSETS.map(registerSubject),
  'tool.call',
  'tool.result',
];

let samples: SampleServices;
let fleet: TestFleet;
let nats: NatsClient;
let previous: Messages;
let today: Messages;
beforeAll(async () => {
  samples = await startSampleServices();
  fleet = await TestFleet.start({
    services: { budget: 1 },
    tools: [],
    config: samples.config,
    env: { ...samples.env, BUILTIN_TOOLSETS: 'compute,web,files,agent' },
  });
  nats = await NatsClient.connect({ name: 'spec', url: fleet.nats.url });
  const recorder = new MessageRecorder(nats);
  // Started after the recorder: announcements and discovery are also messages.
  for (const name of SERVICE_NAMES) if (name !== 'budget') await fleet.launch(name);
  await fleet.untilListed(TOOLS_OF_EVERY_KIND);
  for (const [, run] of EVERY_KIND) await run({ fleet, nats, samples, door: (verb) => `tool.${verb}` });
  await recorder.readQueues(fleet.redis.client() as Redis);
  today = recorder.messages(samples);
  const release = process.env['RECORD_MESSAGES'];
  if (release) await writeMessages(release, today);
  previous = await readMessages(PREVIOUS);
}, 240_000);
afterAll(async () => {
  await nats?.close();
  await fleet?.stop();
  await samples?.stop();
});

/** The service that sends a kind of message; the first pattern that matches counts. */
const SENDERS: readonly [RegExp, ServiceName][] = [
  [/^budget\..* reply$/, 'budget'],
  [/^registry\..* reply$|^registry\.definition\.(announce|changed)$|^exec\.mcp\.discover$/, 'registry'],
  [/^exec\.builtin\..* reply$|^registry\.definition\.register\./, 'builtin-executor'],
  [/^exec\.mcp.* reply$|^exec\.progress\.|^fleet\.status$/, 'mcp-executor'],
  [/^exec\.openapi reply$/, 'openapi-executor'],
  [/./, 'gateway'],
];
const senderOf = (kind: string): ServiceName => SENDERS.find(([pattern]) => pattern.test(kind))![1];

/** What of today's messages the previous readers could not read, of kinds that a service of this name sends. */
function unreadable(messages: Messages, sender?: ServiceName): string[] {
  const kinds = Object.entries(previous).filter(([kind]) => sender === undefined || senderOf(kind) === sender);
  return kinds.flatMap(([kind, { shape }]) => {
    const reader = compileSchema(shape);
    const bodies = messages[kind]?.samples ?? [];
    return bodies.filter((body) => !reader.check(body)).map((body) => `${kind} ${JSON.stringify(body).slice(0, 300)}`);
  });
}

describe('a fleet of two releases', () => {
  it('is recorded in every kind of message that matters', () => {
    expect(EXPECTED.filter((kind) => !(kind in previous))).toEqual([]);
    expect(EXPECTED.filter((kind) => !(kind in today))).toEqual([]);
  });

  // In the order of docs/runbooks/upgrade-and-rollback.md: those that come later are still of the previous release. The sandbox sends no
  // messages: it answers in the record of the job.
  it.each(SERVICE_NAMES.filter((name) => SENDERS.some(([, sender]) => sender === name)))(
    'of which %s is upgraded next sends nothing the previous readers could not read',
    (name) => {
      expect(unreadable(today, name)).toEqual([]);
    },
  );

  it.each<[string, (message: JsonObject) => JsonObject]>([
    ['a field with another name', ({ call_id: id, ...rest }) => ({ ...rest, callId: id! })],
    ['a number as a text', (message) => ({ ...message, fence: String(message['fence']) })],
    ['a context without its tenant', (message) => ({ ...message, context: {} })],
  ])('would be found to send %s', (_what, change) => {
    const kind = 'exec.builtin.compute';
    const changed = today[kind]!.samples.map((sample) => change(sample as JsonObject));
    expect(unreadable({ ...today, [kind]: { ...today[kind]!, samples: changed } })).toHaveLength(changed.length);
  });

  it('takes attempts of the previous gateway', async () => {
    for (const kind of Object.keys(previous).filter((name) => /^exec\.(builtin\.compute|mcp|openapi)$/.test(name))) {
      for (const sample of previous[kind]!.samples as JsonObject[]) {
        // A journalled attempt needs its entry in the journal, which is gone.
        if (sample['journalled'] === true) continue;
        const reply = await replay<ExecResponse>(kind, sample);
        expect(reply, `${kind} ${JSON.stringify(sample).slice(0, 200)}`).toMatchObject({ ok: true });
      }
    }
  });

  it.each([
    'registry.definition.get',
    'registry.definition.list',
    ...TOOLSETS.map(registerSubject),
    'budget.usage',
    'budget.limits',
  ])('answers %s of the previous release', async (subject) => {
    for (const sample of previous[subject]?.samples ?? []) {
      const failure = await replay(subject, sample).then(
        () => undefined,
        (error: unknown) => (isToolError(error) ? error.code : String(error)),
      );
      // What was registered then may be unknown now; what is malformed was never sent.
      expect([undefined, 'TOOL_NOT_FOUND', 'NOT_FOUND'], `${subject} ${JSON.stringify(sample)}`).toContain(failure);
    }
  });

  it('reserves and settles for the previous gateway', async () => {
    for (const sample of previous['budget.reserve']!.samples)
      expect(await replay('budget.reserve', renamed(sample))).toMatchObject({ answers: [{ admitted: true }] });
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
      const job = { ...(sample as JsonObject), call_id: `skew-${index}`, deadline_at: time.now() + 60_000 };
      await queue.add(`skew-${index}-1`, job);
      const ended = async () => ['completed', 'failed'].includes((await queue.record(`skew-${index}-1`)).state);
      await eventually('the job has ended', ended, { timeoutMs: 30_000, everyMs: 100 });
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
  return JSON.parse(JSON.stringify(body).replace(/"call_id":"([^"]+)"/g, '"call_id":"again-$1"')) as Json;
}
