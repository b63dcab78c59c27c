import { FakeClock } from '@toolfleet/testing';
import { expect, test } from 'vitest';
import { Rounds } from './rounds.js';

/** Rounds of 10 s whose outcomes are given; each entry of `log` is a round, a failure or a recovery. */
function setUp(outcomes: (() => unknown)[], firstMs?: number) {
  const clock = new FakeClock();
  const log: string[] = [];
  const rounds = new Rounds({
    clock,
    everyMs: 10_000,
    firstMs,
    work: () => {
      log.push(`round at ${clock.monotonic() / 1_000} s`);
      return outcomes.shift()?.();
    },
    onFailure: (error) => log.push(`failed: ${(error as Error).message}`),
    onRecovery: () => log.push('recovered'),
  });
  const pass = async (ms: number) => {
    clock.advance(ms);
    for (let turn = 0; turn < 5; turn += 1) await Promise.resolve();
  };
  return { clock, log, rounds, pass };
}
const fails = () => Promise.reject(new Error('down'));
const succeeds = () => Promise.resolve();

test.each([
  ['the first round comes after the interval', undefined, [10_000, 10_000], ['round at 10 s', 'round at 20 s']],
  ['or earlier', 1_000, [1_000, 10_000], ['round at 1 s', 'round at 11 s']],
  ['or at once', 0, [0, 10_000], ['round at 0 s', 'round at 10 s']],
])('%s', async (_, firstMs, times, expected) => {
  const { log, rounds, pass, clock } = setUp([], firstMs);
  const start = clock.monotonic();
  rounds.start();
  rounds.start();
  for (const ms of times) await pass(ms);
  expect(log).toEqual(expected.map((line) => line.replace(/\d+/, (s) => String(Number(s) + start / 1_000))));
  await rounds.stop();
  await pass(60_000);
  expect(log).toHaveLength(expected.length);
});

test.each([
  ['an outage is reported once, and its end', [fails, fails, succeeds, fails], ['failed', 'recovered', 'failed']],
  ['work that throws at once fails as well', [() => fails(), succeeds], ['failed', 'recovered']],
  ['rounds that succeed report nothing', [succeeds, succeeds], []],
])('%s', async (_, outcomes, expected) => {
  const { log, rounds, pass } = setUp([...outcomes]);
  rounds.start();
  for (const _outcome of outcomes) await pass(10_000);
  expect(log.filter((line) => !line.startsWith('round')).map((line) => line.split(':')[0])).toEqual(expected);
  await rounds.stop();
});

test('rounds never overlap, and a stop waits for the one that is under way', async () => {
  const { promise, resolve } = Promise.withResolvers<void>();
  const { log, rounds, pass } = setUp([() => promise]);
  rounds.start();
  for (let due = 0; due < 3; due += 1) await pass(10_000);
  expect(log).toHaveLength(1);
  let stopped = false;
  const stopping = rounds.stop().then(() => (stopped = true));
  await pass(0);
  expect(stopped).toBe(false);
  resolve();
  await stopping;
  await pass(60_000);
  expect(log).toHaveLength(1);
});
