import { existsSync } from 'node:fs';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { connect } from 'nats';
import { describe, expect, it } from 'vitest';
import { bundleForTest } from './bundle-for-test.js';
import { endChild, eventually, spawnChild } from './child-process.js';
import { startNats } from './nats-server.js';
import { startRedis } from './redis-server.js';

const alive = (pid: number): boolean => {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
};

describe('brokers for tests', () => {
  it('run side by side on their own ports and leave nothing behind', async () => {
    const brokers = await Promise.all([startRedis(), startRedis(), startNats(), startNats()]);
    expect(new Set(brokers.map((broker) => broker.port)).size).toBe(4);
    await Promise.all(brokers.map((broker) => broker.stop()));
    for (const broker of brokers) {
      expect(alive(broker.pid)).toBe(false);
      expect(existsSync(broker.folder)).toBe(false);
    }
  });

  it('end with the process that started them, even when that is killed', async () => {
    const program = await bundleForTest(fileURLToPath(new URL('../spec/broker-starter.ts', import.meta.url)));
    const starter = spawnChild(process.execPath, [program.entry], { stdio: ['ignore', 'ignore', 'inherit', 'ipc'] });
    const [broker] = (await once(starter, 'message')) as [{ pid: number; folder: string }];
    expect(alive(broker.pid)).toBe(true);
    await endChild(starter, 'SIGKILL');
    await eventually('the broker ended', () => !alive(broker.pid));
    await eventually('its folder is gone', () => !existsSync(broker.folder));
    await program.remove();
  });

  it('Redis keeps its data over a crash when asked to', async () => {
    const redis = await startRedis({ appendOnly: true });
    const client = redis.client();
    await client.set('a', '1');
    await redis.persisted();
    await redis.kill();
    await redis.restart();
    expect(await client.get('a')).toBe('1');
    await redis.kill();
    await redis.revive();
    expect(await client.keys('*')).toEqual(['a']);
    await redis.stop();
  });

  it('NATS lets a tenant publish on its own subject only', async () => {
    const nats = await startNats({ tenants: ['acme'] });
    const tenant = await connect({
      servers: `127.0.0.1:${nats.port}`,
      user: 'acme',
      pass: 'pw-acme',
      inboxPrefix: '_INBOX.acme',
    });
    const fleet = await connect({ servers: `127.0.0.1:${nats.port}`, user: 'fleet', pass: 'pw-fleet' });
    fleet.subscribe('tool.>', { callback: (_error, message) => void message.respond(message.data) });
    await fleet.flush();
    expect((await tenant.request('tool.call.acme', 'x', { timeout: 2_000 })).string()).toBe('x');
    await expect(tenant.request('tool.call.other', 'x', { timeout: 300 })).rejects.toThrow();
    await tenant.close();
    await fleet.close();
    await nats.stop();
  });
});
