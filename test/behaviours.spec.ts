/** The runner of `npm run check:behaviours` reports what it sees: a probe that should fail does, and every promise is stated once. */
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { describe, expect, it } from 'vitest';

const FOLDER = fileURLToPath(new URL('behaviours', import.meta.url));
const load = (path: string) => import(pathToFileURL(join(FOLDER, path)).href);

interface Probe {
  name: string;
  reliance: string;
  expected: unknown;
  needs?: string;
  see: (fleet: object) => Promise<unknown>;
}
type Group = { group: string; probes: Probe[] };

async function run(probes: Partial<Probe>[], fleet: object = { isOwn: true, nats_url: 'nats://x' }) {
  const { runProbes } = await load('run-probes.mjs');
  const lines: string[] = [];
  const group = {
    group: 'a group',
    probes: probes.map((probe) => ({ name: 'a probe', reliance: 'a promise', ...probe })),
  };
  const totals = await runProbes([group], fleet, (line: string) => lines.push(line));
  return { totals, text: lines.join('\n') };
}

describe('a run', () => {
  it('counts probes that see what they expect, and others with what they saw', async () => {
    const { totals, text } = await run([
      {
        expected: { status: 200, body: { ok: true } },
        see: async () => ({ status: 200, body: { ok: true, more: 1 } }),
      },
      { expected: { status: 403 }, see: async () => ({ status: 200 }) },
    ]);
    expect(totals).toEqual({ passed: 1, failed: 1, skipped: 0 });
    expect(text).toMatch(
      /FAILED a group: a probe\n {2}relied on: a promise\n {2}expected: {2}\{status: 403\}\n {2}seen: +\{status: 200\}/,
    );
  });

  it('counts an error as a failure', async () => {
    const see = async () => {
      throw new Error('unreachable');
    };
    const { totals, text } = await run([{ expected: {}, see }]);
    expect(totals).toEqual({ passed: 0, failed: 1, skipped: 0 });
    expect(text).toContain('error: unreachable');
  });

  it('skips probes that the fleet cannot serve', async () => {
    const { totals } = await run(
      [
        { needs: 'own', expected: 1, see: async () => 2 },
        { needs: 'nats', expected: 1, see: async () => 2 },
      ],
      { isOwn: false },
    );
    expect(totals).toEqual({ passed: 0, failed: 0, skipped: 2 });
  });
});

describe('an expectation', () => {
  it.each<[unknown, unknown, boolean]>([
    [1, 1, true],
    [1, '1', false],
    [null, undefined, false],
    [/^a/, 'abc', true],
    [/^a/, undefined, false],
    [[1, 2], [1, 2], true],
    [[1], [1, 2], false],
    [[], [], true],
    [{ a: 1 }, { a: 1, b: 2 }, true],
    [{ a: 1 }, undefined, false],
    [{ a: { b: [{ c: 1 }] } }, { a: { b: [{ c: 1, d: 2 }] } }, true],
  ])('%j of %j: %s', async (expected, value, result) => {
    expect((await load('expectation.mjs')).matches(expected, value)).toBe(result);
  });

  it('judges by words', async () => {
    const { absent, atLeast, excluding, including, matches } = await load('expectation.mjs');
    expect(matches({ a: absent }, {})).toBe(true);
    expect(matches({ a: absent }, { a: null })).toBe(false);
    expect(matches(atLeast(2), 1)).toBe(false);
    expect(matches(including('a'), ['a', 'b'])).toBe(true);
    expect(matches(including('a'), undefined)).toBe(false);
    expect(matches(excluding('a'), ['a'])).toBe(false);
    expect(matches(excluding('a'), undefined)).toBe(false);
  });
});

it('every group has a name, and every probe its own name, what users rely on, and an expected value', async () => {
  const files = readdirSync(join(FOLDER, 'groups'));
  const groups: Group[] = await Promise.all(files.map(async (file) => (await load(`groups/${file}`)).default as Group));
  expect(new Set(groups.map(({ group }) => group)).size).toBe(files.length);
  for (const { group, probes } of groups) {
    expect(new Set(probes.map(({ name }) => name)).size, group).toBe(probes.length);
    for (const probe of probes) {
      expect(probe, `${group}: ${probe.name}`).toMatchObject({
        name: expect.any(String),
        reliance: expect.any(String),
      });
      expect(probe.expected, `${group}: ${probe.name}`).toBeDefined();
    }
  }
});
