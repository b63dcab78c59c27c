import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { FakeClock } from '@toolfleet/testing';
import type { JsonObject } from '@toolfleet/contracts';
import { fleetFileReloader, readFleetFile } from './fleet-file.js';
import { ServiceFaults } from './service-faults.js';

const folder = mkdtempSync(join(tmpdir(), 'toolfleet-fleet-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const read = (content: string) => {
  writeFileSync(join(folder, 'fleet.yaml'), content);
  return readFleetFile(join(folder, 'fleet.yaml'));
};

describe('the configuration file', () => {
  it.each([
    ['', {}],
    ['# only a comment\n', {}],
    ['{"a": [1, true, null]}', { a: [1, true, null] }],
    ['key: ${VAR}\nday: 2020-01-01\n', { key: '${VAR}', day: '2020-01-01' }],
    ['base: &b {x: 1}\nuse:\n  <<: *b\n  y: 2\n', { base: { x: 1 }, use: { x: 1, y: 2 } }],
    ['yes: on\noctal: 010\n', { yes: 'on', octal: 10 }],
  ])('reads %j', (content, expected) => expect(read(content)).toEqual(expected));

  it.each([
    ['- a list', /must be a mapping/],
    ['a: [1', /not valid YAML/],
    ['a: 1\na: 2', /not valid YAML: duplicated mapping key/],
    ['x: !!js/function "f"', /not valid YAML/],
  ])('refuses %j and says where', (content, message) => {
    expect(() => read(content)).toThrow(message);
    expect(() => read(content)).toThrow(expect.objectContaining({ startRefused: true }));
  });

  it('names a missing file', () => {
    expect(() => readFleetFile(join(folder, 'none.yaml'))).toThrow(/none\.yaml cannot be read: ENOENT/);
  });

  it('a prototype key is data', () => {
    const document = read('__proto__: {polluted: 1}\n');
    expect(({} as Record<string, unknown>)['polluted']).toBeUndefined();
    expect(Object.keys(document)).toEqual(['__proto__']);
  });
});

describe('a configuration file that changes', () => {
  it('is applied once it is settled; one that is invalid, missing or rejected is a fault until it is corrected', async () => {
    const file = join(folder, 'changing.yaml');
    writeFileSync(file, 'a: 1');
    const clock = new FakeClock();
    const faults = new ServiceFaults(clock);
    const logged: string[] = [];
    const log = (_facts: object, message: string) => void logged.push(message);
    const applied: JsonObject[] = [];
    const reloader = fleetFileReloader(
      { TOOLFLEET_CONFIG: file, SHANNON_CONFIG_PATH: undefined, CONFIG_PATH: undefined },
      { clock, faults, logger: { info: log, error: log } as never },
      (content) => {
        if (content['a'] === 'bad') throw new RangeError('a must not be bad');
        applied.push(content);
      },
    );
    await reloader.start?.();
    clock.advance(1_000);
    writeFileSync(file, 'a: 2');
    clock.advance(1_000);
    expect(applied).toEqual([]);
    clock.advance(5_000);
    expect(applied).toEqual([{ a: 2 }]);
    for (const [content, message] of [
      ['a: [', 'not valid YAML'],
      ['a: bad', 'a must not be bad'],
    ] as const) {
      writeFileSync(file, content);
      const before = logged.length;
      clock.advance(5_000);
      expect(faults.list()).toMatchObject([
        { subject: 'configuration file', message: expect.stringContaining(message) },
      ]);
      expect(logged.slice(before)).toHaveLength(1);
    }
    rmSync(file);
    clock.advance(2_000);
    expect(faults.list()).toMatchObject([{ message: expect.stringContaining('ENOENT') }]);
    writeFileSync(file, 'a: 2');
    clock.advance(2_000);
    expect([faults.list(), applied]).toEqual([[], [{ a: 2 }, { a: 2 }]]);
    await reloader.stop?.();
    expect(clock.pending).toBe(0);
  });
});
