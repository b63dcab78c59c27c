import { describe, expect, it } from 'vitest';
import { PodCount, PRODUCTION_RULE, type ScalingRule } from './scaling-rule.js';

const RULE: ScalingRule = { ...PRODUCTION_RULE, min: 1, max: 40 };
const jobs = (waiting: number, running = 0, oldestAgeMs = 0) => ({ waiting, running, oldestAgeMs });
const once = (rule: ScalingRule, pods: number, look = jobs(0)) => new PodCount(rule).next(0, pods, look);

describe('pods wanted', () => {
  it.each([
    ['jobs over the target, rounded up', RULE, 4, jobs(6, 2), 5],
    ['the same within a tenth of the target', RULE, 5, jobs(0, 8), 5],
    ['running jobs keep their pods', RULE, 40, jobs(0, 64), 40],
    ['a wait list alone would not', { ...RULE, counts: 'waiting', steadyMs: 1 }, 40, jobs(0, 64), 39],
    ['up by 4 from few', RULE, 1, jobs(100), 5],
    ['up by the double from many', RULE, 10, jobs(100), 20],
    ['never above the most', RULE, 30, jobs(1_000), 40],
    ['never below the least', { ...RULE, min: 2, steadyMs: 1 }, 2, jobs(0), 2],
    ['more for an old job, however few there are', RULE, 4, jobs(1, 6, 10_000), 8],
    ['no more for a young one', RULE, 4, jobs(1, 5, 2_000), 4],
  ] as const)('%s', (_what, rule, pods, look, wanted) => {
    expect(once(rule, pods, look)).toBe(wanted);
  });

  it('grow no faster than the limit of each period, whatever the syncs', () => {
    const count = new PodCount({ ...RULE, syncMs: 5_000 });
    let pods = 2;
    const path = [0, 5_000, 10_000, 15_000, 20_000, 30_000].map((at) => (pods = count.next(at, pods, jobs(500))));
    expect(path).toEqual([6, 6, 6, 12, 12, 24]);
  });

  it('shrink one a minute, and only after five quiet minutes', () => {
    const count = new PodCount(RULE);
    const path: number[] = [];
    let pods = count.next(0, 8, jobs(0, 13));
    for (let at = 15_000; at <= 480_000; at += 15_000) path.push((pods = count.next(at, pods, jobs(0))));
    expect(path.indexOf(7)).toBe(300_000 / 15_000 - 1);
    expect(path.slice(-13)).toEqual(
      [7, 7, 7, 7, 6, 6, 6, 6, 5, 5, 5, 5, 4].map((value, at) => path.at(at - 13) ?? value),
    );
    expect(path.at(-1)).toBe(8 - 4);
  });

  it('stay while a new burst begins within the quiet minutes', () => {
    const count = new PodCount(RULE);
    count.next(0, 8, jobs(0, 13));
    count.next(15_000, 8, jobs(0));
    count.next(290_000, 8, jobs(0, 13));
    expect(count.next(315_000, 8, jobs(0))).toBe(8);
  });
});
