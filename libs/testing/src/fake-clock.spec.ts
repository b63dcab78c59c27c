import { describe, expect, it } from 'vitest';
import { FakeClock } from './fake-clock.js';

describe('the fake clock', () => {
  it('fires timers in order, at their time, timers of timers included', () => {
    const clock = new FakeClock(1_000);
    const fired: string[] = [];
    const note = (name: string) => () => void fired.push(`${name} ${clock.now()}`);
    clock.after(30, note('c'));
    clock.after(10, () => {
      note('a')();
      clock.after(5, note('b'));
    });
    const cancel = clock.after(20, note('never'));
    cancel();
    clock.advance(29);
    expect(fired).toEqual(['a 1010', 'b 1015']);
    clock.advance(1);
    expect(fired.at(-1)).toBe('c 1030');
    expect([clock.now(), clock.monotonic(), clock.pending]).toEqual([1_030, 30, 0]);
  });

  it('run lets promises act between timers', async () => {
    const clock = new FakeClock();
    let rounds = 0;
    void (async () => {
      for (;;) {
        await clock.sleep(10);
        rounds++;
      }
    })();
    await clock.run(55);
    expect(rounds).toBe(5);
  });

  it('keeps monotonic time when the wall clock jumps', () => {
    const clock = new FakeClock(1_000);
    clock.jumpWall(-500);
    clock.advance(10);
    expect([clock.now(), clock.monotonic()]).toEqual([510, 10]);
  });
});
