import { createMetrics } from '@toolfleet/telemetry';
import { FakeClock } from '@toolfleet/testing';
import { expect, it } from 'vitest';
import { limiterFallback } from './limiter-fallback.js';

it('shows local limits while they are in use, and not for ever after', async () => {
  const metrics = createMetrics({ version: '1.2.3', revision: 'abc' });
  const clock = new FakeClock();
  const local = limiterFallback(metrics, clock);
  const shown = async () => /^toolfleet_limiter_fallback (\d)$/m.exec(await metrics.scrape())?.[1];
  expect(await shown()).toBe('0');
  local();
  expect(await shown()).toBe('1');
  clock.advance(16_000);
  expect(await shown()).toBe('0');
});
