import { createLogger } from '@toolfleet/telemetry';
import { describe, expect, it } from 'vitest';
import { nestLogger, nestComponent } from './nest-component.js';

describe('a Nest application as a component', () => {
  it('is built and opened at start, drained, and closed at stop', async () => {
    const steps: string[] = [];
    const app = { listen: async () => steps.push('listen'), close: async () => steps.push('close') };
    const part = nestComponent(
      'app',
      async () => app,
      async () => steps.push('drain'),
    );
    expect(await part.ready?.()).toBe(false);
    await part.start?.();
    expect(await part.ready?.()).toBe(true);
    await part.drain?.();
    await part.stop?.();
    expect(steps).toEqual(['listen', 'drain', 'close']);
  });

  it('leaves nothing open when listening fails, and can be restarted', async () => {
    let made = 0;
    let closed = 0;
    const listen = async (id: number): Promise<void> => {
      if (id === 1) throw new Error('port is taken');
    };
    const create = async () => {
      const id = ++made;
      return { listen: () => listen(id), close: async () => void closed++ };
    };
    const part = nestComponent('app', create, async () => undefined);
    await expect(part.start?.()).rejects.toThrow('port is taken');
    expect([closed, await part.ready?.()]).toEqual([1, false]);
    await part.start?.();
    expect([made, closed, await part.ready?.()]).toEqual([2, 1, true]);
  });

  it('logs through the service, its start-up messages at debug', () => {
    const lines: string[] = [];
    const logger = nestLogger(
      createLogger({ service: 'spec', level: 'info', destination: { write: (line) => void lines.push(line) } }),
    );
    logger.log('Mapped {/x, GET} route', 'RouterExplorer');
    logger.warn('careful', 'Injector');
    logger.error(new Error('broken'), 'Injector');
    expect(lines.map((line) => JSON.parse(line) as object)).toMatchObject([
      { level: 'warn', message: 'careful', context: 'Injector' },
      { level: 'error', message: 'broken', context: 'Injector', error: { type: 'Error' } },
    ]);
  });
});
