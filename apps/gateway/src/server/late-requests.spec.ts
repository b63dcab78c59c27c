import { FakeClock } from '@toolfleet/testing';
import { expect, it } from 'vitest';
import { Suspensions } from './late-requests.js';

it('knows how long a request may have waited, right after the process was suspended', () => {
  const clock = new FakeClock();
  const suspensions = new Suspensions(clock);
  suspensions.start();
  clock.advance(10_000);
  expect(suspensions.waitedMs()).toBe(0);
  clock.suspend(1_000);
  expect(suspensions.waitedMs()).toBe(0);
  clock.advance(500);
  clock.suspend(5_000);
  expect(suspensions.waitedMs()).toBeGreaterThan(4_800);
  clock.advance(100);
  expect(suspensions.waitedMs()).toBeGreaterThan(4_800);
  clock.advance(1_000);
  expect(suspensions.waitedMs()).toBe(0);
  suspensions.stop();
  expect(clock.pending).toBe(0);
});
