/** What a release changes; test/e2e/packages.spec.ts runs it dry. */
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { describe, expect, it } from 'vitest';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
interface Facts {
  version: string;
  current: string;
  today: string;
  tags: string[];
  files: Map<string, string>;
}
const { planRelease } = (await import(pathToFileURL(join(ROOT, 'tools/release/plan.mjs')).href)) as {
  planRelease(facts: Facts): { tag: string; notes: string; edits: Map<string, string> };
};

const CHANGELOG = '# Changelog\n\n## 0.2.0 (unreleased)\n\n- **New**: it.\n\n## 0.1.0 (2026-01-01)\n\nFirst.\n';
const facts = (more: Partial<Facts> = {}): Facts => ({
  version: '0.2.0',
  current: '0.1.0',
  today: '2026-11-22',
  tags: ['v0.1.0'],
  files: new Map([['CHANGELOG.md', CHANGELOG]]),
  ...more,
});

describe('the plan of a release', () => {
  it('dates the section of the version and takes it as notes', () => {
    const { tag, notes, edits } = planRelease(facts());
    expect([tag, notes]).toEqual(['v0.2.0', '- **New**: it.']);
    expect(edits.get('CHANGELOG.md')).toBe(CHANGELOG.replace('(unreleased)', '(2026-11-22)'));
  });

  it('sets the version of own packages, images and constants, and nothing else', () => {
    const lock = {
      version: '0.1.0',
      packages: {
        '': { version: '0.1.0', devDependencies: { other: '0.1.0' } },
        'libs/a': { version: '0.1.0', dependencies: { '@toolfleet/b': '0.1.0', other: '0.1.0' } },
        'node_modules/other': { version: '0.1.0' },
      },
    };
    const files = new Map([
      ['CHANGELOG.md', CHANGELOG],
      ['package-lock.json', JSON.stringify(lock)],
      ['libs/a/package.json', JSON.stringify(lock.packages['libs/a'])],
      ['docker-compose.yml', 'image: toolfleet/gateway:0.1.0\nother: 10.1.0.3 0.1.0.4'],
      ['libs/service/src/start-service.ts', "export const VERSION = '0.1.0';"],
      ['docs/a.md', 'Up to version 0.1.0, and in 0.1.0 itself.'],
      ['test/skew/0.1.0/messages.ts', "'0.1.0'"],
      ['test/load/results/x.json', '{"version":"0.1.0"}'],
    ]);
    const edits = Object.fromEntries(planRelease(facts({ files })).edits);
    expect(Object.keys(edits).toSorted()).toEqual([
      'CHANGELOG.md',
      'docker-compose.yml',
      'libs/a/package.json',
      'libs/service/src/start-service.ts',
      'package-lock.json',
    ]);
    expect(JSON.parse(edits['package-lock.json']!)).toEqual({
      version: '0.2.0',
      packages: {
        '': { version: '0.2.0', devDependencies: { other: '0.1.0' } },
        'libs/a': { version: '0.2.0', dependencies: { '@toolfleet/b': '0.2.0', other: '0.1.0' } },
        'node_modules/other': { version: '0.1.0' },
      },
    });
    expect(edits['docker-compose.yml']).toBe('image: toolfleet/gateway:0.2.0\nother: 10.1.0.3 0.1.0.4');
  });

  it.each<[string, Partial<Facts>, string]>([
    ['no version', { version: '1.0' }, 'is not a version'],
    ['an older version', { version: '0.0.9' }, 'is older than 0.1.0'],
    ['a tag that exists', { tags: ['v0.2.0'] }, 'exists already'],
    ['no section', { version: '0.3.0' }, 'has no section "## 0.3.0 (unreleased)"'],
    ['an empty section', { files: new Map([['CHANGELOG.md', '## 0.2.0 (unreleased)\n\n## 0.1.0\n']]) }, 'is empty'],
  ])('refuses %s', (_name, more, message) => {
    expect(() => planRelease(facts(more))).toThrow(message);
  });
});
