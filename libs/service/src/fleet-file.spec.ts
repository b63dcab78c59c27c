import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeEach, describe, expect, it } from 'vitest';
import { FakeClock } from '@toolfleet/testing';
import type { FleetFile } from '@toolfleet/fleet-file';
import { fleetFileReloader, loadFleetFile } from './fleet-file.js';
import { ServiceFaults } from './service-faults.js';

const folder = mkdtempSync(join(tmpdir(), 'toolfleet-fleet-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const file = join(folder, 'fleet.yaml');
const settings = { TOOLFLEET_CONFIG: [file], SHANNON_CONFIG_PATH: undefined, CONFIG_PATH: undefined };

describe('configuration files at the start', () => {
  it('are joined, and an entry of a later file replaces one of an earlier file', () => {
    const samples = join(folder, 'samples.yaml');
    writeFileSync(samples, 'mcp_servers: { a: { url: "http://a" }, b: { url: "http://b" } }');
    writeFileSync(file, 'mcp_servers: { b: { url: "http://c" } }\nbudget: { defaults: { max_cost_per_day: 1 } }');
    const read = loadFleetFile({ ...settings, TOOLFLEET_CONFIG: [samples, file] });
    expect(read.mcp.map(({ name, url }) => [name, url])).toEqual([
      ['a', 'http://a'],
      ['b', 'http://c'],
    ]);
    expect(read.budget).toEqual({ defaults: { max_cost_per_day: 1 } });
  });

  it('are named in an error when they have the wrong section', () => {
    const wrong = join(folder, 'wrong.yaml');
    writeFileSync(wrong, 'budgets: {}');
    writeFileSync(file, 'budget: {}');
    expect(() => loadFleetFile({ ...settings, TOOLFLEET_CONFIG: [file, wrong] })).toThrow(
      `configuration file ${wrong}: budgets is an unknown key`,
    );
  });

  it('end the start when one is missing or invalid; without any, nothing is configured', () => {
    const missing = { ...settings, TOOLFLEET_CONFIG: [join(folder, 'none.yaml')] };
    expect(() => loadFleetFile(missing)).toThrow(/none\.yaml: cannot be read: ENOENT/);
    expect(() => loadFleetFile(missing)).toThrow(expect.objectContaining({ startRefused: true }));
    expect(loadFleetFile({ ...settings, TOOLFLEET_CONFIG: undefined }).isConfigured).toBe(false);
  });
});

describe('a configuration file that changes', () => {
  const clock = new FakeClock();
  const faults = new ServiceFaults(clock);
  const logged: string[] = [];
  const log = (_facts: object, message: string) => void logged.push(message);
  const host = { service: 'builtin-executor', clock, faults, logger: { info: log, error: log } as never };
  const applied: FleetFile['sub_agent'][] = [];
  const day = (value: number | string) => writeFileSync(file, `sub_agent: { max_iterations: ${value} }`);
  beforeEach(() => {
    applied.length = 0;
    logged.length = 0;
    day(1);
  });

  it('is applied once it is settled; one that is invalid, missing or rejected is a fault until it is corrected', async () => {
    const apply = async (read: FleetFile) => {
      if (read.sub_agent.max_iterations === 13) throw new RangeError('13 is refused');
      applied.push(read.sub_agent);
      return [];
    };
    const reloader = fleetFileReloader(settings, loadFleetFile(settings), { ...host, service: 'budget' }, apply);
    await reloader.start?.();
    await clock.run(1_000);
    day(2);
    await clock.run(1_000);
    expect(applied).toEqual([]);
    await clock.run(4_000);
    expect(applied).toEqual([{ max_iterations: 2 }]);
    for (const [content, message] of [
      ['[', 'not valid YAML'],
      ['13', '13 is refused'],
      ['21', 'must be an integer from 1 to 20, not 21'],
      ['1 }\nsub_agents: {', 'sub_agents is an unknown key; did you mean sub_agent?'],
    ] as const) {
      day(content);
      const before = logged.length;
      await clock.run(4_000);
      const expected = { subject: 'configuration file', message: expect.stringContaining(message) };
      expect(faults.list()).toMatchObject([expected]);
      expect(logged.slice(before)).toHaveLength(1);
    }
    writeFileSync(file, '');
    await clock.run(2_000);
    expect(faults.list()).toMatchObject([{ message: expect.stringContaining('is empty') }]);
    rmSync(file);
    await clock.run(2_000);
    expect(faults.list()).toMatchObject([{ message: expect.stringContaining('ENOENT') }]);
    day(2);
    await clock.run(2_000);
    expect([faults.list(), applied]).toEqual([[], [{ max_iterations: 2 }, { max_iterations: 2 }]]);
    await reloader.stop?.();
    expect(clock.pending).toBe(0);
  });

  it('says which sections need a restart, until the change is undone', async () => {
    const reloader = fleetFileReloader(settings, loadFleetFile(settings), host);
    await reloader.start?.();
    day(2);
    await clock.run(3_000);
    expect(faults.list()).toMatchObject([
      { message: 'sub_agent changed; restart the builtin-executor service to apply it' },
    ]);
    day(1);
    await clock.run(3_000);
    expect(faults.list()).toEqual([]);
    await reloader.stop?.();
  });
});
