/**
 * The tutorials as a new user takes them: one fleet of `npm start`, one shell in a folder like a clone, all pages in their order. Commands
 * print the output that the page shows. Then the pages with requests and their answers.
 */
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { freePort } from '@toolfleet/testing';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { NpmStart } from '../fleet/npm-start.js';
import { PAGES_WITH_ANSWERS, runPage, Shell } from '../tutorials/run-page.js';

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
  cpSync(join(ROOT, '.gitignore'), join(folder, '.gitignore'));
  shopPort = String(await freePort());
  runner = await NpmStart.start({
    TOOLFLEET_STATE_DIR: join(folder, '.toolfleet'),
    POLICY_DIR: join(folder, 'deploy/policies'),
  });
  shell = new Shell(folder, { PORT: shopPort });
  const commit = 'git -c user.name=a -c user.email=a@localhost commit --quiet --message=all';
  const { printed, status } = await shell.run(`git init --quiet && git add --all && ${commit}`);
  expect(status, printed).toBe(0);
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

describe('requests and answers of', () => {
  it.each(PAGES_WITH_ANSWERS)('docs/%s.md', async (name) => {
    await shell.run('. .toolfleet/env');
    expect(await runPage(readFileSync(join(ROOT, 'docs', `${name}.md`), 'utf8'), shell)).toBeGreaterThanOrEqual(1);
  });
});

it('git would take nothing of what the pages have written', async () => {
  const { printed } = await shell.run('git status --porcelain --untracked-files=all');
  expect(printed.trim()).toBe('');
});
