/**
 * Today's services on the data of the previous release, and on data of a later one, as after a rollback: with migrations and fields
 * that they do not know. `RECORD_DATA=<release> npm test -- test/e2e/recorded-data` records the data of a release into `test/skew`.
 */
import { join } from 'node:path';
import { eventually } from '@toolfleet/testing';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
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
} from '../skew/left-data.js';
import * as recorded from '../skew/recorded-data.js';

const PREVIOUS = '0.1.0';
const RECORDED = process.env['RECORD_DATA'];

let samples: SampleServices;
beforeAll(async () => {
  samples = await startSampleServices();
  if (RECORDED) await record(RECORDED);
});
afterAll(() => samples?.stop());

async function record(release: string): Promise<void> {
  const host = await startOnData(samples);
  const { fleet } = host;
  try {
    await launchAll(fleet);
    await fleet.untilListed(TOOLS_OF_DATA);
    const left = await leaveData(host, 'kept');
    await eventually('the ledger has the call', () => ledgerCalls(fleet).has(left.noteId));
    await fleet.terminate('budget');
    await fleet.launch('budget', { BUDGET_UPKEEP_MS: '60000' });
    // The first round writes what is there; usage after it waits for a minute.
    const { body, text } = await fleet.call('calculator', { expression: '20+0.25' }, { key: left.key });
    expect(body, text).toMatchObject({ success: true });
    const redis = fleet.redis.client();
    await eventually('its usage waits', async () => (await redis.xlen('{b:acme}:outbox')) > 0);
    for (const name of SERVICE_NAMES) if (fleet.running.get(name)?.length) await fleet.kill(name);
    await recorded.writeRecording(
      release,
      {
        ...{ recordedAt: Date.now(), left, unwrittenId: body.call_id },
        redis: await recorded.readKeys(redis),
        ledger: recorded.readLedger(join(fleet.folder, 'budget.db')),
        files: await recorded.readFiles(fleet.folder),
      },
      samples,
    );
  } finally {
    await stopOnData(host);
  }
}

describe.each<[string, (data: recorded.RecordedData) => recorded.RecordedData]>([
  ['of the previous release', (data) => data],
  ['of a later release', (data) => recorded.asOfLaterRelease(data)],
])('a fleet on data %s', (_what, change) => {
  it('answers as the one that left it', async () => {
    const data = change(await recorded.readRecording(PREVIOUS, samples));
    const host = await startOnData(samples);
    const { fleet } = host;
    try {
      await recorded.writeKeys(fleet.redis.client(), data.redis);
      recorded.writeLedger(join(fleet.folder, 'budget.db'), data.ledger);
      await recorded.writeFiles(fleet.folder, data.files);
      const rows = data.ledger.rows['token_usage']!.map(({ call_id: id }) => String(id));
      expect(rows).not.toContain(data.unwrittenId);
      await launchAll(fleet);
      await fleet.untilListed([...TOOLS_OF_DATA, `${data.left.name}_listOrders`]);
      expect(await seenData(host, data.left)).toEqual(expectedData(data.left));
      const lost = () => {
        const calls = ledgerCalls(fleet);
        return [...rows, data.unwrittenId, data.left.queuedId].filter((id) => !calls.has(id));
      };
      await eventually('every call is in the ledger', () => lost().length === 0);
    } finally {
      await stopOnData(host);
    }
  });
});

// A rollback restores the configuration with the manifests: one of a later release is a mistake, not data.
it.each(['registry', 'budget', 'gateway'] as const)('%s refuses a configuration of a later release', async (name) => {
  const host = await startOnData(samples, { ...samples.config, from_a_later_release: {} });
  try {
    await expect(launchOnData(host.fleet, name)).rejects.toThrow();
    const { process } = host.fleet.all.at(-1)!;
    expect(await process.ended).toBe(78);
    expect(process.log() + process.errors()).toContain('from_a_later_release');
  } finally {
    await stopOnData(host);
  }
});

it.each<[string, { name: string; needs_release: string | null }, string]>([
  [
    'that needs a later release',
    { name: '9999-breaks', needs_release: '9.0.0' },
    'the ledger needs release 9.0.0 or newer (migration 9999-breaks); start that release, or restore a backup from before its upgrade',
  ],
  [
    'of an unreleased build',
    { name: '0001-ledger', needs_release: null },
    'the ledger was made by an unreleased build (migration 0001-ledger) and cannot be read; start anew: mv .toolfleet .toolfleet.old && npm start',
  ],
])('a ledger %s ends the budget service with its reason', async (_what, migration, reason) => {
  const data = await recorded.readRecording(PREVIOUS, samples);
  const executed = data.ledger.rows['ledger_migration']!;
  if (migration.needs_release === null) executed.length = 0;
  executed.push({ executed_at: '', ...migration });
  const host = await startOnData(samples);
  try {
    recorded.writeLedger(join(host.fleet.folder, 'budget.db'), data.ledger);
    await expect(launchOnData(host.fleet, 'budget')).rejects.toThrow();
    const { process } = host.fleet.all.at(-1)!;
    expect(await process.ended).toBe(78);
    expect(process.log() + process.errors()).toContain(reason);
  } finally {
    await stopOnData(host);
  }
});
