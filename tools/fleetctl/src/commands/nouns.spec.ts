/** A noun shows, changes and removes the things that it makes, and refuses unknown verbs, options and words. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { ROUTES } from '@toolfleet/contracts/resources';
import { beforeAll, describe, expect, it } from 'vitest';
import { COMMANDS } from '../command-table.js';
import { run, seen, serveGateway } from '../fleetctl.fixture.js';

serveGateway();

const nouns = new Map<string, readonly string[]>();
for (const [name, row] of COMMANDS) {
  const { verbs = [] } = await row.load();
  if (verbs.length > 0 && name !== 'completion') nouns.set(name, verbs);
}
/** Their words after the noun are names and files. */
const FREE = ['tools', 'audit', 'openapi'];
const strict = [...nouns].filter(([noun]) => !FREE.includes(noun));
const verbs = strict.flatMap(([noun, all]) => all.map((verb): [string, string] => [noun, verb]));

const MAKES = ['add', 'create', 'put', 'connect', 'set'];
const SHOWS = ['list', 'show'];
const CHANGES = ['set', 'put', 'limits', 'connect'];
const REMOVES = ['remove', 'revoke', 'purge', 'unset'];
/** Nouns without such a verb, with the reason. */
const WITHOUT: Readonly<Record<string, string>> = {
  'keys changes': 'the rights of a key never change for its holder: it is revoked, and another one is created',
  'python-modules removes': 'set replaces the whole list, also with nothing',
};

describe.each([...nouns].filter(([, all]) => all.some((verb) => MAKES.includes(verb))))('%s', (noun, all) => {
  it.each([
    ['shows', SHOWS],
    ['changes', CHANGES],
    ['removes', REMOVES],
  ])('%s what it makes', (what, wanted) => {
    const has = all.some((verb) => wanted.includes(verb));
    expect(has, `${noun} ${all.join(', ')}`).toBe(WITHOUT[`${noun} ${what}`] === undefined);
  });
});

describe('every noun', () => {
  it.each(strict)('%s refuses an unknown verb with the one that is meant', async (noun, [verb = '']) => {
    const { code, error } = await run([noun, `${verb}q`]);
    expect({ code, error }).toEqual({ code: 2, error: expect.stringContaining(`did you mean ${verb}?`) });
    expect(seen).toEqual([]);
  });

  it.each(verbs)('%s %s refuses an unknown option and a word too many', async (noun, verb) => {
    const words = ['a', 'b', 'c', 'd', 'e', 'f'];
    for (const argv of [[noun, verb, '--no-such-option', 'x'], ...(isOpen(noun, verb) ? [] : [[noun, verb, ...words]])])
      expect((await run(argv)).code, argv.join(' ')).toBe(2);
    expect(seen).toEqual([]);
  });
});

/** Whether a verb takes any number of words. */
const isOpen = (noun: string, verb: string): boolean =>
  ['rules test', 'python-modules set', 'sources set', 'sources add'].includes(`${noun} ${verb}`);

/** Routes that no command needs, with the reason. */
const NOT_ASKED: Readonly<Record<string, string>> = {
  'GET /': 'for browsers',
  'POST /api/v1/tools/batch-execute': 'for programs: a shell makes calls one after another',
  'GET /api/v1/calls/{id}/result': '--output writes it from the result of the call',
  'GET /api/v1/calls/{id}/content/{index}': '--output writes it from the result of the call',
  'GET /api/v1/results/{handle}': 'fleetctl call read_result reads it',
  'GET /api/v1/sign-in': 'for the console',
  'POST /api/v1/sign-out': 'for the console: fleetctl has a key',
  'POST /mcp/mock': 'for smoke tests',
  'GET /openapi.json': 'a document',
  'GET /docs/errors': 'a page for browsers, to which errors lead',
  'GET /api/v1/catalog': 'for the console: fleetctl tools lists them',
  'GET /api/v1/catalog/{name}': 'for the console: fleetctl describe shows it',
  'GET /api/v1/breakers': 'fleetctl health names those that are open',
  'GET /api/v1/limits': 'for the console',
  'POST /api/v1/sources/inspect': 'for the console: sources add finds out and registers in one step',
};

describe('the routes of the API', () => {
  let code: string;
  beforeAll(() => {
    const folder = join(import.meta.dirname, '..');
    const files = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter(
      (file) => file.endsWith('.ts') && !/\.(?:spec|fixture)\.ts$/.test(file),
    );
    const text = files.map((file) => readFileSync(join(folder, file), 'utf8')).join('\n');
    code = ['approve', 'reject'].map((decision) => text.replaceAll('${decision}', decision)).join('\n');
  });

  it('are each asked by a command, or it is said why not', () => {
    const asked = Object.entries(ROUTES).filter(([key, { tag }]) => tag !== 'shannon' && !code.includes(`${key}'`));
    const missing = asked.map(([key]) => key).filter((key) => !code.includes(`${key}\``));
    expect(missing.toSorted()).toEqual(Object.keys(NOT_ASKED).toSorted());
  });
});
