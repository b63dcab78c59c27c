/** A service with parts that misbehave on demand; started as a process by start-service.spec.ts. */
import {
  boolean,
  defineConfig,
  defineService,
  durationMs,
  integer,
  secret,
  startService,
  FatalStartupError,
  text,
  type LifecycleComponent,
} from '../src/index.js';

const config = defineConfig('demo', {
  DEMO_NAME: text({ default: 'demo', help: 'a name' }),
  DEMO_SECRET: secret({ optional: true, minLength: 8, help: 'a secret' }),
  DEMO_OTHER_SECRET: secret({ optional: true, help: 'a secret that is read at start only' }),
  DEMO_BROKER_AWAY: integer({ default: 0, min: 0, help: 'failing connects before one succeeds' }),
  DEMO_REFUSE: boolean({ default: false, help: 'refuse to start' }),
  DEMO_BUG: boolean({ default: false, help: 'throw a TypeError at start' }),
  DEMO_DRAIN_MS: durationMs({ default: 0, help: 'time a drain takes' }),
  DEMO_DRAIN_FAILS: boolean({ default: false, help: 'the drain fails in the end' }),
  DEMO_CRASH: boolean({ default: false, help: 'reject a promise without a handler' }),
});

const demo = defineService(config, async (settings, host): Promise<LifecycleComponent[]> => {
  let away = settings.DEMO_BROKER_AWAY;
  let isReady = true;
  const part = (name: string, extra: Partial<LifecycleComponent> = {}): LifecycleComponent => ({
    name,
    start: async () => host.logger.info(`start ${name}`),
    drain: async () => host.logger.info(`drain ${name}`),
    stop: async () => host.logger.info(`stop ${name}`),
    ...extra,
  });
  host.onSecretChange('DEMO_SECRET', (value) => host.logger.info({ length: value.length }, `rotated to ${value}`));
  host.announce({ port: 4711 });
  return [
    part('broker', {
      async start() {
        if (settings.DEMO_REFUSE) throw new FatalStartupError('Redis has maxmemory-policy allkeys-lru');
        if (settings.DEMO_BUG) throw new TypeError('undefined is not a function');
        if (away-- > 0) throw Object.assign(new Error('connect ECONNREFUSED 127.0.0.1:1'), { code: 'ECONNREFUSED' });
        if (settings.DEMO_SECRET) host.logger.info(`the secret is ${settings.DEMO_SECRET}`);
      },
      ready: () => isReady,
      async stop() {
        host.logger.info('stop broker');
        if (settings.DEMO_DRAIN_FAILS) await host.clock.sleep(settings.DEMO_DRAIN_MS);
      },
    }),
    part('worker', {
      async drain() {
        host.logger.info('drain worker');
        await host.clock.sleep(settings.DEMO_DRAIN_MS);
        if (settings.DEMO_DRAIN_FAILS) throw new Error('2 calls were lost');
        host.logger.info('drained worker');
      },
    }),
    part('endpoint', {
      async start() {
        process.on('SIGUSR2', () => (isReady = !isReady));
        if (settings.DEMO_CRASH) void Promise.reject(new Error(`lost ${settings.DEMO_SECRET}`));
      },
    }),
  ];
});

await startService(demo);
