/** Parts of the local runner that need no fleet: supervision, and a start that fails. Looks for processes in /proc. */
import { spawn } from 'node:child_process';
import { chmodSync, globSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { freePort } from '@toolfleet/testing';
import { afterAll, describe, expect, it } from 'vitest';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const load = (name: string) => import(pathToFileURL(join(ROOT, 'tools/local', name)).href);

interface Child {
  pid: number;
  running(): boolean;
}
interface Supervised {
  child: Child;
  start(): void;
  stop(graceMs: number): Promise<void>;
}
type Spawn = (onExit: (status: number | string) => void) => Child;
interface SupervisedOptions {
  name: string;
  logFile: string;
  say: (line: string) => void;
  spawn: Spawn;
  onGivenUp: (error: Error & { exitCode: number }) => void;
}

const { Supervised } = (await load('supervisor.mjs')) as { Supervised: new (options: SupervisedOptions) => Supervised };
const { startProcess } = (await load('child-process.mjs')) as { startProcess: (options: object) => Child };

const folder = mkdtempSync(join(tmpdir(), 'toolfleet-runner-'));
afterAll(() => rmSync(folder, { recursive: true, force: true, maxRetries: 3 }));

/** Processes of this machine with the text in command line or environment. */
function processesNaming(text: string): string[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid)
    .flatMap((pid) => {
      try {
        const told = readFileSync(`/proc/${pid}/cmdline`, 'utf8') + readFileSync(`/proc/${pid}/environ`, 'utf8');
        return told.includes(text) ? [`${pid} ${told.slice(0, 80).replaceAll('\0', ' ')}`] : [];
      } catch {
        return [];
      }
    });
}

/** Supervises a shell script; resolves when it is given up. */
function supervised(script: string) {
  const logFile = join(folder, `${Math.random().toString(36).slice(2)}.log`);
  const lines: string[] = [];
  const outcome = Promise.withResolvers<Error & { exitCode: number }>();
  const part = new Supervised({
    name: 'part',
    logFile,
    say: (line) => lines.push(line),
    spawn: (onExit) =>
      startProcess({ name: 'part', command: '/bin/sh', args: ['-c', script], env: process.env, logFile, onExit }),
    onGivenUp: outcome.resolve,
  });
  part.start();
  return { part, lines, givenUp: outcome.promise };
}

const onLinux = describe.skipIf(process.platform !== 'linux');

onLinux('a supervised process', () => {
  it('is started again with growing waits, and given up at its fifth end within a minute', async () => {
    const { lines, givenUp } = supervised('echo "words of the $$"; exit 3');
    const error = await givenUp;
    expect(error.exitCode).toBe(1);
    expect(error.message).toMatch(/^part ended with status 3, the 5th time before it was ready\. Its last lines/);
    expect(error.message.match(/words of the \d+/g)).toHaveLength(5);
    expect(lines.map((line) => /again in ([\d.]+) s/.exec(line)?.[1])).toEqual(['0.2', '0.4', '0.8', '1.6']);
    expect(lines[0]).toMatch(/^part ended with status 3; .*Its log ends: words of the \d+$/);
  });

  it('is given up at once when it refuses its configuration', async () => {
    const { lines, givenUp } = supervised(`echo '{"level":"fatal","message":"PORT: not a number"}'; exit 78`);
    expect(await givenUp).toMatchObject({
      exitCode: 78,
      message: expect.stringMatching(/refused its configuration[^]*\nfatal: PORT: not a number$/),
    });
    expect(lines).toEqual([]);
  });

  it('is not started again once it is stopped, and takes its children along', async () => {
    const seconds = `9${process.pid}.5`;
    const { part, lines } = supervised(`sleep ${seconds} & wait`);
    const sleepers = () => processesNaming(`sleep\0${seconds}`).length;
    await expect.poll(sleepers).toBe(1);
    process.kill(part.child.pid, 'SIGKILL');
    await expect.poll(() => lines.length).toBe(1);
    await expect.poll(() => part.child.running() && sleepers()).toBe(1);
    await part.stop(2_000);
    await expect.poll(sleepers).toBe(0);
    expect(lines).toHaveLength(1);
  });
});

/** Runs a runner that is killed right after it has spawned its first process; resolves when the runner has ended. */
async function killAfterSpawn(options: object): Promise<void> {
  const program = `
    import childProcess from 'node:child_process';
    import { syncBuiltinESMExports } from 'node:module';
    const { spawn } = childProcess;
    childProcess.spawn = (...all) => { spawn(...all); process.kill(process.pid, 'SIGKILL'); };
    syncBuiltinESMExports();
    const { startProcess } = await import(${JSON.stringify(pathToFileURL(join(ROOT, 'tools/local/child-process.mjs')).href)});
    startProcess({ name: 'part', env: process.env, logFile: '/dev/null', ...${JSON.stringify(options)} });`;
  const runner = spawn(process.execPath, ['--input-type=module', '-e', program], { stdio: 'ignore' });
  expect(await new Promise((resolve) => runner.once('exit', (_code, signal) => resolve(signal)))).toBe('SIGKILL');
}

onLinux('a process whose runner is killed right after spawning it', () => {
  const ends = (text: string) => expect.poll(() => processesNaming(text)).toEqual([]);

  it('ends a program without a channel', async () => {
    const seconds = `8${process.pid}.5`;
    await killAfterSpawn({ command: 'sleep', args: [seconds] });
    await ends(`sleep\0${seconds}`);
  });

  it('ends the samples, whose channel closes while they load', async () => {
    const mark = `mark-${process.pid}`;
    const main = join(ROOT, 'tools/samples/dist/main.js');
    await killAfterSpawn({ command: process.execPath, args: [main, '0', mark], ipc: true });
    await ends(mark);
  });
});

onLinux('npm test', () => {
  it('ends with its tests on SIGTERM', async () => {
    const mark = `mark-${process.pid}`;
    const runner = spawn(process.execPath, [join(ROOT, 'tools/local/test.mjs'), 'libs/resilience/src'], {
      env: { ...process.env, TEST_PROJECTS: 'unit', MARK: mark },
      stdio: 'ignore',
    });
    const ended = new Promise((resolve) => runner.once('exit', resolve));
    // The runner, vitest, and a worker.
    await expect.poll(() => processesNaming(mark).length).toBeGreaterThan(2);
    runner.kill('SIGTERM');
    expect(await ended).toBe(1);
    await expect.poll(() => processesNaming(mark)).toEqual([]);
  });
});

onLinux('npm start', () => {
  const start = async (env: Record<string, string>) => {
    const child = spawn(process.execPath, [join(ROOT, 'tools/local/up.mjs')], {
      env: { ...process.env, GATEWAY_PORT: String(await freePort()), ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    let output = '';
    for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => (output += String(chunk)));
    return { child, output: () => output, ended: new Promise((resolve) => child.once('close', resolve)) };
  };

  it('fails with the words of a broker that cannot run, and leaves no process behind', async () => {
    const stateDir = mkdtempSync(join(folder, 'state-'));
    const bin = join(stateDir, 'bin');
    mkdirSync(bin);
    const redis = '#!/bin/sh\n[ "$1" = --version ] && exit 0\necho "Bad directive"; exit 1\n';
    writeFileSync(join(bin, 'redis-server'), redis);
    chmodSync(join(bin, 'redis-server'), 0o755);
    const run = await start({ TOOLFLEET_STATE_DIR: stateDir, PATH: `${bin}:${process.env['PATH']}` });
    expect(await run.ended).toBe(1);
    expect(run.output()).toMatch(/redis ended with status 1, the 5th time before it was ready[^]*Bad directive/);
    await expect.poll(() => processesNaming(stateDir)).toEqual([]);
  });

  it('waits for a broker that does not answer, names it, and ends by Ctrl-C', async () => {
    const stateDir = mkdtempSync(join(folder, 'state-'));
    const bin = join(stateDir, 'bin');
    mkdirSync(bin);
    writeFileSync(join(bin, 'redis-server'), '#!/bin/sh\n[ "$1" = --version ] && exit 0\nexec sleep 99999\n');
    chmodSync(join(bin, 'redis-server'), 0o755);
    const run = await start({ TOOLFLEET_STATE_DIR: stateDir, PATH: `${bin}:${process.env['PATH']}` });
    const waits = /starting nats-server and redis-server … [\d.]+ s, waiting for redis \(does not listen on port \d+\)/;
    await expect.poll(run.output).toMatch(waits);
    expect(run.child.exitCode).toBeNull();
    run.child.kill('SIGINT');
    expect(await run.ended).toBe(0);
    await expect.poll(() => processesNaming(stateDir)).toEqual([]);
  });

  it('leaves no process behind when it is killed', async () => {
    const stateDir = mkdtempSync(join(folder, 'state-'));
    const run = await start({ TOOLFLEET_STATE_DIR: stateDir });
    await expect.poll(() => run.output()).toContain('starting nats-server and redis-server:');
    run.child.kill('SIGKILL');
    await run.ended;
    await expect.poll(() => processesNaming(stateDir)).toEqual([]);
  });
});

describe('the configuration of npm start', () => {
  interface Configuration {
    readDotEnv(folder: string, root: string, say: (line: string) => void, into: object): Promise<void>;
    configurationFiles(options: object): string[];
    FaultPrinter: new (say: (line: string) => void) => { show(service: string, faults: object[]): void };
  }
  const said: string[] = [];
  const say = (line: string) => void said.push(line);
  const configuration = () => load('configuration.mjs') as Promise<Configuration>;

  it('reads .env; the environment wins, and a misspelt setting gets a suggestion', async () => {
    const { readDotEnv } = await configuration();
    writeFileSync(
      join(folder, '.env'),
      'MAX_TOKENS_PER_REQUEST=7\nLOG_LEVEL=debug\nMAX_COST_PER_REQEUST=5\nGITHUB_TOKEN="a b"\nGATEWAY_PORT=8081\nNATS_URL=\n',
    );
    const environment = { LOG_LEVEL: 'warn', GATEWAY_PORT: '', TOOLFLEET_DEV_API_KEY: '' };
    await readDotEnv(folder, ROOT, say, environment);
    expect(environment).toMatchObject({ MAX_TOKENS_PER_REQUEST: '7', LOG_LEVEL: 'warn', GITHUB_TOKEN: 'a b' });
    expect(said.splice(0)).toEqual([
      `${join(folder, '.env')}: MAX_COST_PER_REQEUST is not a setting; did you mean MAX_COST_PER_REQUEST?`,
    ]);
    // Empty variables are unset ones.
    expect(environment).toMatchObject({ GATEWAY_PORT: '8081' });
    expect(environment).not.toHaveProperty('TOOLFLEET_DEV_API_KEY');
    expect(environment).not.toHaveProperty('NATS_URL');
    const bare = { TOOLFLEET_CONFIG: '' };
    await readDotEnv(join(folder, 'none'), ROOT, say, bare);
    expect(bare).toEqual({});
  });

  it('takes a copy of .toolfleet/env as .env: none of its names is one that a start reads', async () => {
    const { readDotEnv } = await configuration();
    const { shellFile } = (await load('shell-file.mjs')) as { shellFile: (path: string, fleet: object) => string };
    const fleet = { url: 'http://a', api_key: 'k', nats_url: 'nats://b', redis_url: 'redis://c' };
    const copy = mkdtempSync(join(folder, 'copy-'));
    writeFileSync(join(copy, '.env'), shellFile(join(copy, '.env'), fleet));
    const environment = {};
    await readDotEnv(copy, ROOT, say, environment);
    expect(environment).toEqual({
      TOOLFLEET_URL: 'http://a',
      TOOLFLEET_API_KEY: 'k',
      TOOLFLEET_NATS_URL: 'nats://b',
      TOOLFLEET_REDIS_URL: 'redis://c',
    });
    expect(said.splice(0)).toEqual([]);
    const settings = readFileSync(join(ROOT, 'docs/configuration.md'), 'utf8');
    const runner = globSync('tools/{setup,local/*}.mjs', { cwd: ROOT })
      .filter((file) => !file.endsWith('shell-file.mjs'))
      .map((file) => readFileSync(join(ROOT, file), 'utf8'));
    // The start screen prints `<name>=<value>`.
    for (const name of Object.keys(environment))
      expect([settings, ...runner].filter((text) => new RegExp(`\\b${name}\\b(?!=)`).test(text))).toEqual([]);
  });

  it('uses the brokers that the environment names, and prints which it does not start', async () => {
    const { startBrokers } = (await load('brokers.mjs')) as { startBrokers: (options: object) => Promise<object> };
    const named = { NATS_URL: 'nats://127.0.0.1:1', REDIS_URL: 'redis://127.0.0.1:1' };
    // No other spec of the process has them (vitest.config.ts).
    expect(Object.keys(named).filter((name) => name in process.env)).toEqual([]);
    Object.assign(process.env, named);
    try {
      expect(await startBrokers({ say })).toEqual({ natsUrl: named.NATS_URL, redisUrl: named.REDIS_URL, brokers: [] });
    } finally {
      for (const name of Object.keys(named)) delete process.env[name];
    }
    expect(said.splice(0)).toEqual([
      'NATS_URL is set; starting no nats-server',
      'REDIS_URL is set; starting no redis-server',
    ]);
  });

  it('makes the file of the user once, and writes the sources of the samples at each start', async () => {
    const { configurationFiles } = await configuration();
    const stateDir = mkdtempSync(join(folder, 'state-'));
    const files = (port: number) =>
      configurationFiles({ root: ROOT, stateDir, samples: { SAMPLE_MCP_URL: `http://127.0.0.1:${port}` } });
    expect(files(1)).toEqual([join(stateDir, 'samples.yaml'), join(stateDir, 'fleet.yaml')]);
    writeFileSync(join(stateDir, 'fleet.yaml'), 'budget: {}\n');
    expect(readFileSync(files(2)[0]!, 'utf8')).toContain('url: http://127.0.0.1:2/mcp');
    expect(readFileSync(files(2)[1]!, 'utf8')).toBe('budget: {}\n');
    expect(said.splice(0)).toEqual([]);
  });

  it('prints a fault of several services once', async () => {
    const printer = new (await configuration()).FaultPrinter(say);
    const fault = { subject: 'configuration file', message: 'x is an unknown key' };
    for (const service of ['budget', 'gateway'])
      printer.show(service, [fault, { subject: 'source mcp/a', message: 'no' }]);
    expect(said.splice(0)).toEqual(['configuration file: x is an unknown key']);
    for (const service of ['budget', 'gateway']) printer.show(service, []);
    expect(said.splice(0)).toEqual(['no fault is left']);
  });
});
