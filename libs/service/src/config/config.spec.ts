import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, expectTypeOf, it } from 'vitest';
import { defineConfig, type SettingsOf } from './define-config.js';
import { boolean, durationMs, integer, list, number, oneOf, path, secret, text, url, type Field } from './field.js';
import { ConfigError, loadConfig } from './load-config.js';
import { describeSettings, documentConfig, helpText } from './print-config.js';

const folder = mkdtempSync(join(tmpdir(), 'toolfleet-config-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const file = (name: string, content: string): string => {
  writeFileSync(join(folder, name), content);
  return join(folder, name);
};
const help = 'x';
const faultsOf = (load: () => unknown): { key: string; message: string }[] => {
  try {
    load();
    return [];
  } catch (error) {
    return [...(error as ConfigError).faults];
  }
};

describe('values', () => {
  const cases: [string, Field<unknown>, string, unknown][] = [
    ['text', text({ help }), ' kept as it is ', ' kept as it is '],
    ['integer', integer({ help }), '-12', -12],
    ['integer', integer({ help }), '12.5', 'fault'],
    ['integer', integer({ help }), '1e3', 'fault'],
    ['integer', integer({ help, min: 1, max: 9 }), '0', 'fault'],
    ['integer', integer({ help, min: 1, max: 9 }), '10', 'fault'],
    ['number', number({ help }), '0.25', 0.25],
    ['number', number({ help }), 'NaN', 'fault'],
    ['number', number({ help }), 'Infinity', 'fault'],
    ['boolean', boolean({ help }), 'Yes', true],
    ['boolean', boolean({ help }), 'off', false],
    ['boolean', boolean({ help }), 'maybe', 'fault'],
    ['duration', durationMs({ help }), '250', 250],
    ['duration', durationMs({ help }), '1.5s', 1_500],
    ['duration', durationMs({ help }), '2m', 120_000],
    ['duration', durationMs({ help }), '1h', 3_600_000],
    ['duration', durationMs({ help }), '5 minutes', 'fault'],
    ['duration', durationMs({ help, max: 300_000 }), '6m', 'fault'],
    ['list', list({ help }), ' a, b,,c ', ['a', 'b', 'c']],
    ['list', list({ help, of: ['a', 'b'] }), 'a,z', 'fault'],
    ['one of', oneOf(['on', 'off'], { help }), 'off', 'off'],
    ['one of', oneOf(['on', 'off'], { help }), 'OFF', 'fault'],
    ['url', url({ help, schemes: ['nats', 'tls'] }), 'nats://a:1,nats://b:2', 'nats://a:1,nats://b:2'],
    [
      'url',
      url({ help, schemes: ['redis+sentinel'] }),
      'redis+sentinel://a:1,b:2,[::1]:3/primary/0',
      'redis+sentinel://a:1,b:2,[::1]:3/primary/0',
    ],
    ['url', url({ help, schemes: ['nats'] }), 'nats://a,http://b', 'fault'],
    ['url', url({ help, schemes: ['nats'] }), 'nats://a,', 'fault'],
    ['url', url({ help, schemes: ['nats'] }), 'nats://a,b c', 'fault'],
    ['url', url({ help, schemes: ['nats'] }), 'a:1,nats://b', 'fault'],
    ['url', url({ help, schemes: ['nats'] }), 'http://a', 'fault'],
    ['url', url({ help }), 'localhost:4222', 'fault'],
    ['path', path({ help }), '/a/b c', '/a/b c'],
  ];
  it.each(cases)('%s %#: %j', (_kind, field, raw, expected) => {
    const config = defineConfig('spec', { KEY: field });
    const load = () => loadConfig(config, { KEY: raw }).settings.KEY;
    if (expected === 'fault') expect(faultsOf(load)).toMatchObject([{ key: 'KEY' }]);
    else expect(load()).toEqual(expected);
  });

  it('unset and empty give the default, undefined when optional, a fault when required', () => {
    const config = defineConfig('spec', {
      A: integer({ default: 7, help }),
      B: text({ optional: true, help }),
      C: text({ help }),
    });
    expect(loadConfig(config, { A: '', C: 'c' }).settings).toMatchObject({ A: 7, B: undefined, C: 'c' });
    expect(faultsOf(() => loadConfig(config, { C: '' }))).toEqual([
      { key: 'C', message: 'is required', remedy: 'set it: x' },
    ]);
    type Settings = SettingsOf<(typeof config)['table']>;
    expectTypeOf<Settings['A']>().toEqualTypeOf<number>();
    expectTypeOf<Settings['B']>().toEqualTypeOf<string | undefined>();
    expectTypeOf<Settings['C']>().toEqualTypeOf<string>();
  });

  it('checks rules over several keys once each value is valid', () => {
    const config = defineConfig(
      'spec',
      { LOW: integer({ default: 1, help }), HIGH: integer({ default: 2, help }) },
      { check: ({ LOW, HIGH }) => (LOW > HIGH ? [{ key: 'LOW', message: 'must not be above HIGH' }] : []) },
    );
    expect(faultsOf(() => loadConfig(config, { LOW: '3' }))).toEqual([
      { key: 'LOW', message: 'must not be above HIGH', value: '3' },
    ]);
    expect(faultsOf(() => loadConfig(config, { LOW: 'x', HIGH: 'y' })).map((fault) => fault.key)).toEqual([
      'LOW',
      'HIGH',
    ]);
  });
});

describe('secrets', () => {
  const config = defineConfig('spec', {
    TOKEN: secret({ optional: true, minLength: 8, help }),
    OTHER: text({ default: 'o', help }),
  });

  it('come from the key or its file, without the final line break', () => {
    expect(loadConfig(config, { TOKEN: 'from-the-key' }).settings.TOKEN).toBe('from-the-key');
    const loaded = loadConfig(config, { TOKEN_FILE: file('good', 'from-the-file\r\n') });
    expect(loaded.settings.TOKEN).toBe('from-the-file');
    expect(loaded.sources['TOKEN']).toBe('file');
  });

  it.each([
    ['both are set', { TOKEN: 'from-the-key', TOKEN_FILE: 'x' }],
    ['the file is missing', { TOKEN_FILE: join(folder, 'none') }],
    ['the file is empty', { TOKEN_FILE: file('empty', '\n') }],
    ['the value is too short', { TOKEN: 'seven77' }],
  ])('are refused when %s, without their value', (_why, environment) => {
    const faults = faultsOf(() => loadConfig(config, environment));
    expect(faults).toHaveLength(1);
    expect(JSON.stringify(faults)).not.toContain('seven77');
  });

  it('are never printed', () => {
    const database = defineConfig('spec', { ...config.table, DATABASE_URL: url({ help, optional: true }) });
    const loaded = loadConfig(database, {
      TOKEN: 'do-not-show-me',
      DATABASE_URL: 'postgres://me:p%40ss-word@db/x',
      OTHER: 'do-not-show-me too',
    });
    const dump = describeSettings(database, loaded);
    expect(dump).toMatchObject({
      TOKEN: '(secret from environment)',
      DATABASE_URL: 'postgres://me:[redacted]@db/x',
      OTHER: '[redacted] too',
    });
    expect(JSON.stringify(dump) + helpText(database)).not.toMatch(/do-not-show-me|p%40ss|p@ss/);
  });
});

describe('the table', () => {
  it('is documented: own keys in their order, then the shared keys', () => {
    const config = defineConfig('spec', {
      B_KEY: integer({ default: 3, min: 1, max: 9, help: 'the b' }),
      A_KEY: secret({ help: 'the a' }),
    });
    const rows = documentConfig(config);
    expect(rows.slice(0, 2)).toEqual([
      { key: 'B_KEY', kind: 'integer', rule: '1 to 9', required: false, default: '3', help: 'the b', shared: false },
      { key: 'A_KEY', kind: 'secret', required: true, help: 'the a', shared: false },
    ]);
    expect(rows.slice(2).every((row) => row.shared)).toBe(true);
    expect(rows.map((row) => row.key)).toContain('ADMIN_PORT');
  });

  it('refuses keys that are not UPPER_SNAKE_CASE or the file form of a secret', () => {
    expect(() => defineConfig('spec', { lower: text({ help }) })).toThrow(/UPPER_SNAKE_CASE/);
    expect(() => defineConfig('spec', { A: secret({ help }), A_FILE: path({ help }) })).toThrow(/file form/);
  });
});
