/**
 * A release, the current build, and the release again on one set of data: class by class in the order of
 * docs/runbooks/upgrade-and-rollback.md and back, with calls of all kinds on each side. Everything that one side left is what the
 * next one finds, and no row of the ledger is lost. `npm run test:rollback -- <ref>` builds the release and runs this.
 */
import { eventually } from '@toolfleet/testing';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { EVERY_KIND, TOOLS_OF_EVERY_KIND } from '../fleet/every-kind.js';
import { startSampleServices, type SampleServices } from '../fleet/sample-services.js';
import { SERVICE_NAMES } from '../fleet/test-fleet.js';
import {
  expectedData,
  launchAll,
  launchOnData,
  leaveData,
  ledgerCalls,
  seenData,
  startOnData,
  stopOnData,
  TOOLS_OF_DATA,
  type DataHost,
  type LeftData,
} from '../skew/left-data.js';

/** Root of a built working tree. */
const RELEASE = process.env['RELEASE_BUILD'];
const TOOLS = [...TOOLS_OF_DATA, ...TOOLS_OF_EVERY_KIND];

describe.skipIf(!RELEASE)('release, current build, release', () => {
  let samples: SampleServices;
  let host: DataHost;
  /** Ids of executions with a successful response. */
  const answered = new Set<string>();
  const left: LeftData[] = [];
  /** Rows of the ledger, by call, when they were last looked at. */
  let rows: ReadonlySet<string> = new Set();
  beforeAll(async () => {
    samples = await startSampleServices();
    host = await startOnData(samples);
    noteCalls(host);
    await launchAll(host.fleet, RELEASE);
    await host.fleet.untilListed(TOOLS);
  });
  afterAll(async () => {
    if (host) await stopOnData(host);
    await samples?.stop();
  });

  function noteCalls({ fleet }: DataHost): void {
    const ask = fleet.ask.bind(fleet);
    fleet.ask = async (request) => {
      const answer = await ask(request);
      const { success, call_id: id, metadata } = answer.body ?? {};
      if (success === true && metadata?.provenance === 'live' && !metadata.idempotent_replay) answered.add(String(id));
      return answer;
    };
  }

  async function useAndLeave(name: string): Promise<void> {
    for (const [, run] of EVERY_KIND) await run({ ...host, subjectOf: (verb) => `tool.${verb}` });
    left.push(await leaveData(host, name));
  }

  /** Replaces one class after the other; calls of two kinds work in between. */
  async function replaceAll(order: readonly (typeof SERVICE_NAMES)[number][], build?: string): Promise<void> {
    const { fleet } = host;
    for (const name of order) {
      if (fleet.running.get(name)?.length) expect(await fleet.terminate(name)).toBe(0);
      await launchOnData(fleet, name, build);
      await fleet.untilListed(TOOLS);
      const works = async (tool: string, args: object) => (await fleet.call(tool, args)).body?.success === true;
      await eventually(`calls work with another ${name}`, () =>
        works('calculator', { expression: `${answered.size}+0.5` }),
      );
      await eventually('programs work', () => works('execute_python', { code: '6 * 7' }));
    }
  }

  async function everythingIsThere(): Promise<void> {
    for (const data of left) expect(await seenData(host, data)).toEqual(expectedData(data));
    const expected = [
      ...rows,
      ...answered,
      ...left.flatMap(({ noteId, largeId, queuedId }) => [noteId, largeId, queuedId]),
    ];
    let lost: string[] = [];
    const isComplete = () => {
      const calls = ledgerCalls(host.fleet);
      lost = expected.filter((id) => !calls.has(id));
      return lost.length === 0;
    };
    await eventually('every call is in the ledger', isComplete).catch(() => undefined);
    expect(lost).toEqual([]);
    rows = ledgerCalls(host.fleet);
    process.stdout.write(`${answered.size} responses, ${rows.size} rows, none lost\n`);
  }

  it('the current build works on what the release left', async () => {
    await useAndLeave('first');
    await replaceAll(['python-sandbox', ...SERVICE_NAMES.filter((name) => name !== 'python-sandbox')]);
    await everythingIsThere();
  });

  it('the release works on what the current build left', async () => {
    await useAndLeave('second');
    await replaceAll(
      ['python-sandbox', ...SERVICE_NAMES.toReversed().filter((name) => name !== 'python-sandbox')],
      RELEASE,
    );
    await everythingIsThere();
  });
});
