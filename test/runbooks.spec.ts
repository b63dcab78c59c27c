/** Runbooks: each says what its alert means and what to do, and names the test that rehearses it. */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { createLogger } from '@toolfleet/telemetry';
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

  it('look for errors as the log writes them, and at workloads that are deployed', () => {
    let line = '';
    createLogger({ service: 'spec', destination: { write: (text) => void (line = text) } }).error('broken');
    const texts = pages.map((page) => readFileSync(`${ROOT}docs/runbooks/${page}`, 'utf8')).join('\n');
    const patterns = [...texts.matchAll(/grep -E '([^']*"level"[^']*)'/g)].map(([, pattern]) => pattern!);
    expect(patterns.length).toBeGreaterThan(3);
    for (const pattern of patterns) expect(line).toMatch(new RegExp(pattern));
    const workloads = [...texts.matchAll(/^kubectl -n toolfleet [^\n]*? deploy\/([a-z-]+)/gm)].map(([, name]) => name!);
    expect([...new Set(workloads)].filter((name) => !existsSync(`${ROOT}deploy/k8s/base/${name}`))).toEqual([]);
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
