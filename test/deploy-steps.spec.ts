/** The steps of `npm run check:deploy`, as far as the programs of this machine go: nothing is downloaded. */
import { cpSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { describe, expect, it } from 'vitest';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const load = (name: string) => import(pathToFileURL(join(ROOT, 'tools/deploy', name)).href);

interface Step {
  name: string;
  needs: string[];
  long: boolean;
  check: () => string[] | Promise<string[]>;
}
const { deploySteps } = (await load('steps.mjs')) as { deploySteps: (own?: string) => Step[] };
const { isInstalled } = (await load('programs.mjs')) as { isInstalled: (name: string) => boolean };

describe('npm run check:deploy', () => {
  for (const { name, needs, long, check } of deploySteps()) {
    const title = needs.length === 0 ? name : `${name} (${needs.join(', ')})`;
    it.skipIf(long || !needs.every(isInstalled))(title, { timeout: 180_000 }, async () => {
      expect(await check()).toEqual([]);
    });
  }

  it('checks a copy of the production overlay in place of the variants', () => {
    const names = deploySteps(join(ROOT, 'deploy/k8s/overlays/mine')).map(({ name }) => name);
    expect(names).toContain('mine keeps our rules');
    expect(names).not.toContain('prod keeps our rules');
  });

  it('fails for a copy that still has settings of the example', async () => {
    const copy = mkdtempSync(join(tmpdir(), 'toolfleet-overlay-'));
    cpSync(join(ROOT, 'deploy/k8s/overlays/prod'), copy, { recursive: true });
    const step = deploySteps(copy).find(({ name }) => name === 'its settings are its own');
    expect(await step?.check()).toEqual(expect.arrayContaining([expect.stringContaining('is an example')]));
    rmSync(copy, { recursive: true });
  });
});
