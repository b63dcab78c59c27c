import { mkdtempSync, rmSync, symlinkSync, writeFileSync, renameSync, mkdirSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import {
  bundleForTest,
  eventually,
  startServiceProcess,
  type ServiceProcess,
  type TestProgram,
} from '@toolfleet/testing';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';

let program: TestProgram;
let folder: string;
let running: ServiceProcess[] = [];

beforeAll(async () => {
  program = await bundleForTest(fileURLToPath(new URL('../spec/demo-service.ts', import.meta.url)));
  folder = mkdtempSync(join(tmpdir(), 'toolfleet-service-'));
});
afterEach(async () => {
  await Promise.all(running.map((service) => service.kill()));
  running = [];
});
afterAll(async () => {
  rmSync(folder, { recursive: true, force: true });
  await program.remove();
});

function start(env: Record<string, string> = {}, args: string[] = []): ServiceProcess {
  const service = startServiceProcess({ entry: program.entry, env, args });
  running.push(service);
  return service;
}
const messages = (service: ServiceProcess): string[] =>
  service
    .log()
    .split('\n')
    .filter(Boolean)
    .map((line) => (JSON.parse(line) as { message: string }).message);

describe('configuration', () => {
  it('reports every fault at once and exits with 78', async () => {
    const service = start({ DEMO_SECRET: 'short', DEMO_BROKER_AWAY: '-1', ADMIN_PORT: 'x', LOG_LEVEL: 'loud' });
    expect(await service.ended).toBe(78);
    for (const key of ['DEMO_SECRET', 'DEMO_BROKER_AWAY', 'ADMIN_PORT', 'LOG_LEVEL'])
      expect(service.errors()).toContain(key);
    expect(service.errors()).not.toContain('short\n');
    expect(service.log()).toBe('');
  });

  it('--help prints the table, also with an invalid configuration', async () => {
    const service = start({ ADMIN_PORT: 'x' }, ['--help']);
    expect(await service.ended).toBe(0);
    for (const word of ['DEMO_SECRET or DEMO_SECRET_FILE', 'ADMIN_PORT', 'at least 8 characters', 'default 15000']) {
      expect(service.log()).toContain(word);
    }
  });
});

describe('the lifecycle of a service', () => {
  it('announces its ports, serves probes and metrics, drains in reverse and exits with 0', async () => {
    const service = start({ DEMO_DRAIN_MS: '300' });
    await service.ready();
    expect(service.facts).toMatchObject({ service: 'demo', pid: service.pid, port: 4711, started: true });
    expect(await service.admin('/health/live')).toEqual({ status: 200, body: '{"status":"live"}' });
    expect((await service.admin('/health/startup')).status).toBe(200);
    expect((await service.admin('/metrics')).body).toContain(
      'toolfleet_build_info{version="0.1.0",revision="unknown"} 1',
    );
    expect((await service.admin('/other')).status).toBe(404);

    process.kill(service.pid, 'SIGUSR2');
    await eventually('it is not ready', async () => (await service.admin('/health/ready')).status === 503);
    expect(JSON.parse((await service.admin('/health/ready')).body)).toMatchObject({
      parts: { broker: false, endpoint: true },
      faults: [],
    });
    expect((await service.admin('/health/live')).status).toBe(200);

    const ended = service.terminate();
    await eventually(
      'readiness is false while draining',
      async () => (await service.admin('/health/ready')).status === 503,
    );
    expect(await ended).toBe(0);
    const tail = messages(service).slice(-8);
    expect(tail).toEqual([
      'drain endpoint',
      'drain worker',
      'drained worker',
      'drain broker',
      'stop endpoint',
      'stop worker',
      'stop broker',
      'ended',
    ]);
  });

  it('waits for a broker with one log line per attempt, alive but not ready', async () => {
    const service = start({ DEMO_BROKER_AWAY: '3' });
    await eventually('the admin port is open', () => service.facts['admin_port'] !== undefined);
    expect((await service.admin('/health/startup')).status).toBe(503);
    expect((await service.admin('/health/ready')).status).toBe(503);
    expect((await service.admin('/health/live')).status).toBe(200);
    await service.ready();
    const waits = messages(service).filter((message) => message.startsWith('waiting for broker'));
    expect(waits).toEqual(Array.from({ length: 3 }, () => 'waiting for broker: connect ECONNREFUSED 127.0.0.1:1'));
    expect(service.log()).not.toContain('    at ');
    expect(await service.terminate()).toBe(0);
  });

  it('can be stopped while it waits for a broker', async () => {
    const service = start({ DEMO_BROKER_AWAY: '1000' });
    await eventually('it waits', () => messages(service).some((message) => message.startsWith('waiting for broker')));
    expect(await service.terminate()).toBe(0);
  });

  it('exits with 78 when a start cannot succeed, with 1 on a bug', async () => {
    const refused = start({ DEMO_REFUSE: '1' });
    expect(await refused.ended).toBe(78);
    expect(messages(refused)).toContain('cannot start: Redis has maxmemory-policy allkeys-lru');
    const broken = start({ DEMO_BUG: '1' });
    expect(await broken.ended).toBe(1);
    expect(broken.log()).toContain('TypeError');
  });

  it('limits the time of the drain', async () => {
    const service = start({ DEMO_DRAIN_MS: '60000', DRAIN_TIMEOUT_MS: '200' });
    await service.ready();
    expect(await service.terminate()).toBe(0);
    expect(messages(service)).toContain('worker did not drain in time');
    expect(messages(service)).toContain('stop broker');
  });

  it.each([
    ['in time', '15000', []],
    ['after its time', '100', ['worker did not drain in time']],
  ])('logs the error of a drain that fails %s', async (_when, limitMs, warnings) => {
    const service = start({ DEMO_DRAIN_MS: '400', DRAIN_TIMEOUT_MS: limitMs, DEMO_DRAIN_FAILS: 'true' });
    await service.ready();
    expect(await service.terminate()).toBe(0);
    const about = messages(service).filter((message) => /^worker (did|failed)/.test(message));
    expect(about).toEqual([...warnings, 'worker failed to drain: 2 calls were lost']);
  });

  it('exits at once on a second signal', async () => {
    const service = start({ DEMO_DRAIN_MS: '60000', DRAIN_TIMEOUT_MS: '60000' });
    await service.ready();
    process.kill(service.pid, 'SIGINT');
    await eventually('it drains', () => messages(service).includes('drain worker'));
    process.kill(service.pid, 'SIGINT');
    expect(await service.ended).toBe(130);
  });

  it('does not outlive its parent', async () => {
    const service = start();
    await service.ready();
    service.disconnect();
    expect(await service.ended).toBe(0);
  });

  it('does not outlive a parent that ended while it was loading', async () => {
    // Loading takes its time, and the end of the channel arrives before the service listens for it.
    const wait = encodeURIComponent('await new Promise((resolve) => setTimeout(resolve, 500));');
    const service = start({ NODE_OPTIONS: `--import=data:text/javascript,${wait}` });
    service.disconnect();
    expect(await service.ended).toBe(0);
  });

  it('reports that a port is in use', async () => {
    const first = start();
    await first.ready();
    const second = start({ ADMIN_PORT: String(first.facts['admin_port']) });
    expect(await second.ended).toBe(78);
    expect(messages(second).join('\n')).toMatch(
      /cannot start: .*EADDRINUSE.*check ADMIN_HOST="127\.0\.0\.1", ADMIN_PORT="\d+"/,
    );
  });
});

describe('secrets', () => {
  const canary = 'canary-7f3a9c51e2';
  it('never reach the log, also not in a crash', async () => {
    const service = start({ DEMO_SECRET: canary, DEMO_CRASH: '1' });
    expect(await service.ended).toBe(1);
    expect(service.log()).toContain('the secret is [redacted]');
    expect(service.log()).toContain('(secret from environment)');
    expect(service.log()).toContain('lost [redacted]');
    expect(service.log() + service.errors()).not.toContain(canary);
  });

  it('are read again when Kubernetes replaces the directory of their file', async () => {
    const mount = mkdtempSync(join(folder, 'mount-'));
    const version = (name: string, value: string): void => {
      mkdirSync(join(mount, name));
      writeFileSync(join(mount, name, 'secret'), `${value}\n`);
      symlinkSync(name, join(mount, '..data.tmp'));
      renameSync(join(mount, '..data.tmp'), join(mount, '..data'));
    };
    version('v1', `${canary}-one`);
    symlinkSync('..data/secret', join(mount, 'secret'));
    const service = start({ DEMO_SECRET_FILE: join(mount, 'secret') });
    await service.ready();
    version('v2', `${canary}-second`);
    await eventually('the new value is in use', () => service.log().includes('rotated to'));
    expect(service.log()).toContain(`"length":${`${canary}-second`.length}`);
    // A value the table refuses is not used, and no value is shown.
    version('v3', 'short');
    await eventually('the bad value is refused', () => service.log().includes('the old value stays'));
    expect(service.log()).not.toContain(canary);
    expect(JSON.parse((await service.admin('/health/ready')).body)).toMatchObject({
      status: 'ready',
      faults: [{ subject: 'secret DEMO_SECRET', message: expect.stringContaining('the old value stays') }],
    });
    version('v4', `${canary}-third`);
    await eventually('the fault is gone', async () => !(await service.admin('/health/ready')).body.includes('subject'));
    await service.terminate();
  });

  it('reports that a changed file without a follower needs a restart', async () => {
    const file = join(folder, 'unfollowed');
    writeFileSync(file, `${canary}-one`);
    const service = start({ DEMO_OTHER_SECRET_FILE: file });
    await service.ready();
    writeFileSync(file, `${canary}-two`);
    await eventually('it is logged', () => service.log().includes('uses the new value after a restart'));
    expect(service.log()).toContain('"key":"DEMO_OTHER_SECRET"');
    expect((await service.admin('/health/ready')).body).toContain('restart this service to use the new value');
    await service.terminate();
  });
});
