/** Runbooks: each says what its alert means and what to do, and names the test that rehearses it. */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const SECTIONS = ['## Meaning', '## First look', '## Action', '## Drill'];

/** What is missing in a page. */
function faultsOf(text: string, exists: (path: string) => boolean): string[] {
  const missing = SECTIONS.filter((section) => !text.includes(`\n${section}\n`));
  const drill = text.slice(text.indexOf('## Drill'));
  const named = [...drill.matchAll(/`([\w./-]+\.(?:spec\.ts|mjs))`/g)].map(([, path]) => path!);
  return [
    ...missing.map((section) => `no section ${section}`),
    ...(named.length > 0 ? [] : ['names no test']),
    ...named.filter((path) => !exists(path)).map((path) => `names ${path}, which does not exist`),
  ];
}

describe('runbooks', () => {
  const pages = readdirSync(`${ROOT}docs/runbooks`);
  it.each(pages)('%s is complete and names a test that exists', (page) => {
    const text = readFileSync(`${ROOT}docs/runbooks/${page}`, 'utf8');
    expect(faultsOf(text, (path) => existsSync(ROOT + path))).toEqual([]);
  });

  it('that are not would be found', () => {
    const page = (drill: string) => `# X\n\n## Meaning\n\na\n\n## First look\n\n## Drill\n\n${drill}\n`;
    expect(faultsOf(page('Try it.'), () => true)).toEqual(['no section ## Action', 'names no test']);
    expect(faultsOf(page('`test/none.spec.ts`'), () => false)).toEqual([
      'no section ## Action',
      'names test/none.spec.ts, which does not exist',
    ]);
  });
});
