/**
 * A newcomer's machine: no brokers, none of their libraries, a clone below a private folder. CI runs all tests in such a view; here are
 * the cases that one run does not meet.
 */
import { execFileSync, spawnSync } from 'node:child_process';
import { chmodSync, cpSync, mkdirSync, mkdtempSync, rmSync, statSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const SCRIPT = join(ROOT, 'test/bare-machine.sh');
const possible = spawnSync(SCRIPT, ['--check']).status === 0;

interface Outcome {
  nats?: string;
  redis?: string;
  error?: string;
  said: string[];
  versions: string[];
  left: string[];
}

describe.skipIf(!possible)('a machine without brokers', () => {
  const folder = mkdtempSync(join(tmpdir(), 'toolfleet-bare-'));
  const clone = join(folder, 'clone');
  let outcomes: Record<string, Outcome>;

  beforeAll(() => {
    chmodSync(folder, 0o700);
    mkdirSync(clone);
    cpSync(join(ROOT, 'tools/local'), join(clone, 'tools/local'), { recursive: true });
    const program = join(ROOT, 'test/e2e/bare-machine.mjs');
    const command = ['sh', '-c', '"$0" "$1"; exit 7', process.execPath, program];
    const run = spawnSync(SCRIPT, ['--here', '--strict', ...command], { cwd: clone, encoding: 'utf8' });
    expect(run.status, `the status of the command; ${run.stderr}`).toBe(7);
    outcomes = JSON.parse(run.stdout.trim().split('\n').at(-1)!) as Record<string, Outcome>;
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  const runs = [expect.stringMatching(/^nats-server: v/), expect.stringMatching(/^(Redis|Valkey) server v=/)];
  const own = (name: string) => join(clone, '.toolfleet/broker-programs/bin', name);

  it('gets brokers that run, whatever apt has cached and although one on PATH does not', () => {
    expect(statSync(folder).mode & 0o777).toBe(0o700);
    const { said, versions, nats, redis, left, error } = outcomes['brokers absent, archives cached']!;
    expect(error).toBeUndefined();
    expect({ nats, redis, versions }).toEqual({ nats: own('nats-server'), redis: own('redis-server'), versions: runs });
    expect(said).toEqual([
      expect.stringMatching(/bin\/redis-server does not run: liblzf\.so\.1: cannot open shared object file/),
      expect.stringMatching(/^getting nats-server and redis-server as Debian packages/),
    ]);
    expect(left).toEqual(['broker-programs']);
  });

  it('finds them again without a word', () => {
    expect(outcomes['the second start']).toMatchObject({ nats: own('nats-server'), said: [], versions: runs });
  });

  it('replaces a folder that lost a library, without package lists of the system, and removes what a killed start left', () => {
    const { said, versions, left } = outcomes['a broken folder']!;
    expect(said.join('\n')).toMatch(/broker-programs\/bin\/redis-server does not run: .*liblzf\.so\.1/);
    expect({ versions, left }).toEqual({ versions: runs, left: ['broker-programs'] });
  });

  it.each([
    ['a proxy that refuses', /407 {2}Proxy Authentication Required/, /^ {2}http_proxy=http:\/\/HOST:PORT npm start$/m],
    ['no network', /Temporary failure resolving|Unable to connect|Could not/, /^ {2}npm start$/m],
    ['an architecture without packages', /No packages found/, /^ {2}docker compose up -d nats redis && NATS_URL=/m],
  ])('with %s repeats the words of apt and names the command that helps', (name, words, command) => {
    const { error, left } = outcomes[name]!;
    expect(error).toMatch(/^nats-server and redis-server not found, and apt-get could not get them\./);
    expect(error).toMatch(words);
    expect(error).toMatch(command);
    expect(left).toEqual([]);
  });

  it.each([
    ['alpine', 'apk add nats-server redis'],
    [
      'fedora',
      'dnf install golang valkey && env GOBIN=/usr/local/bin go install github.com/nats-io/nats-server/v2@latest',
    ],
    ['arch', 'pacman -S nats-server valkey'],
    ['void', 'docker compose up -d nats redis && NATS_URL='],
  ])('without apt, on %s, names the command of the system', (system, command) => {
    expect(outcomes[`no apt: ${system}`]!.error).toContain(`\n  ${command}`);
  });
});

it('runs the command directly where a bare view is not possible, with its status and its last line', () => {
  // A machine that has nothing to make a view with.
  const bin = mkdtempSync(join(tmpdir(), 'toolfleet-bin-'));
  for (const name of ['bash', 'sh', 'uname', 'id']) {
    symlinkSync(execFileSync('/bin/sh', ['-c', `command -v ${name}`], { encoding: 'utf8' }).trim(), join(bin, name));
  }
  const run = spawnSync(SCRIPT, ['--here', 'sh', '-c', 'echo last line; exit 7'], {
    env: { PATH: bin },
    encoding: 'utf8',
  });
  rmSync(bin, { recursive: true });
  expect(run).toMatchObject({ status: 7, stdout: 'last line\n', stderr: expect.stringMatching(/no bare view/) });
});
