/**
 * The tutorials as a new user takes them: one fleet of `npm start`, one shell in a folder like a clone, all pages in their order. Commands print the output that the page shows.
 */
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { freePort } from '@toolfleet/testing';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { NpmStart } from '../fleet/npm-start.js';
import { runPage, Shell } from '../tutorials/run-page.js';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
/** Port of the shop on the pages. */
const SHOP_PORT = '4010';

let folder: string;
let runner: NpmStart;
let shell: Shell;
let shopPort: string;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'toolfleet-tutorials-'));
  for (const path of ['docs', 'node_modules', 'package.json']) symlinkSync(join(ROOT, path), join(folder, path));
  mkdirSync(join(folder, 'deploy'));
  cpSync(join(ROOT, 'deploy/policies'), join(folder, 'deploy/policies'), { recursive: true });
  shopPort = String(await freePort());
  runner = await NpmStart.start({
    TOOLFLEET_STATE_DIR: join(folder, '.toolfleet'),
    POLICY_DIR: join(folder, 'deploy/policies'),
  });
  shell = new Shell(folder, { PORT: shopPort });
});

afterAll(async () => {
  shell?.stop();
  await runner?.stop();
  if (folder) rmSync(folder, { recursive: true, force: true });
});

describe('tutorials', () => {
  it.each(['your-api', 'many-tools', 'teams', 'failed-calls', 'approvals', 'kubernetes'])('%s', async (name) => {
    const page = readFileSync(join(ROOT, 'docs/tutorials', `${name}.md`), 'utf8');
    expect(await runPage(page.replaceAll(SHOP_PORT, shopPort), shell)).toBeGreaterThanOrEqual(
      name === 'kubernetes' ? 0 : 8,
    );
  });
});
