/**
 * The tutorials as a new user takes them: one fleet of `npm start`, one shell in a folder like a clone, all pages in their order. What a page
 * shows is what the commands print.
 */
import { spawn, type ChildProcess } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { eventually, freePort } from '@toolfleet/testing';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { runPage, Shell } from '../tutorials/run-page.js';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
/** Port of the shop on the pages. */
const SHOP_PORT = '4010';

let folder: string;
let runner: ChildProcess;
let shell: Shell;
let shopPort: string;
let output = '';

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'toolfleet-tutorials-'));
  for (const path of ['docs', 'node_modules', 'package.json']) symlinkSync(join(ROOT, path), join(folder, path));
  mkdirSync(join(folder, 'deploy'));
  cpSync(join(ROOT, 'deploy/policies'), join(folder, 'deploy/policies'), { recursive: true });
  shopPort = String(await freePort());
  runner = spawn('npm', ['start', '--silent'], {
    cwd: ROOT,
    env: {
      ...process.env,
      GATEWAY_PORT: String(await freePort()),
      TOOLFLEET_STATE_DIR: join(folder, '.toolfleet'),
      POLICY_DIR: join(folder, 'deploy/policies'),
    },
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: true,
  });
  for (const stream of [runner.stdout!, runner.stderr!])
    stream.on('data', (data: Buffer) => (output += data.toString()));
  await eventually(
    'the fleet is ready',
    () => {
      if (runner.exitCode !== null) throw new Error(`npm start ended:\n${output}`);
      return output.includes('toolfleet is ready');
    },
    { timeoutMs: 180_000 },
  );
  shell = new Shell(folder, { PORT: shopPort });
});

afterAll(async () => {
  shell?.stop();
  if (runner?.pid && runner.exitCode === null) {
    const ended = new Promise((resolve) => runner.once('exit', resolve));
    process.kill(-runner.pid, 'SIGTERM');
    await ended;
  }
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
