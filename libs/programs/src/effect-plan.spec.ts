import type { PlannedEffect } from '@toolfleet/contracts';
import { describe, expect, it } from 'vitest';
import { PlanCheck, PlanDraft } from './effect-plan.js';

const effect = (text: string, fields: Partial<PlannedEffect> = {}): PlannedEffect => ({
  tool: 'save',
  arguments: { text },
  microUsd: 1_000,
  revision: 'r1',
  fingerprint: `f-${text}`,
  questions: [],
  ...fields,
});
const call = (code = 'x') => ({ arguments: { code } });

/** The plan of effects, as the dry run of a program finds them. */
async function planOf(...effects: PlannedEffect[]) {
  const draft = new PlanDraft();
  for (const [index, one] of effects.entries()) await draft.meet(index + 1, one, true);
  return draft.end(call());
}

describe('a plan', () => {
  it('has the effects in the order of the program, and no other calls', async () => {
    const draft = new PlanDraft();
    await draft.meet(3, effect('b'), true);
    await draft.meet(2, effect('read'), false);
    await draft.meet(1, effect('a'), true);
    expect(draft.end(call()).effects.map(({ arguments: args }) => args.text)).toEqual(['a', 'b']);
  });

  it('has a digest of program, tools, arguments and order', async () => {
    const { digest } = await planOf(effect('a'), effect('b'));
    expect((await planOf(effect('a'), effect('b', { microUsd: 5 }))).digest).toBe(digest);
    const others = [
      await planOf(effect('b'), effect('a')),
      await planOf(effect('a')),
      await planOf(effect('a'), effect('b', { revision: 'r2' })),
      new PlanDraft().end(call('y')),
    ];
    expect(others.map((other) => other.digest)).not.toContain(digest);
  });
});

describe('a program that keeps to its plan', () => {
  it('may have each effect once, in order, and leave some out', async () => {
    const check = new PlanCheck(await planOf(effect('a'), effect('b'), effect('c')));
    await check.meet(1, effect('a'), true);
    await check.meet(2, effect('anything'), false);
    await check.meet(3, effect('c'), true);
    await expect(check.meet(4, effect('c'), true)).rejects.toMatchObject({ code: 'OUTSIDE_PLAN' });
    await expect(check.meet(4, effect('b'), true)).rejects.toMatchObject({
      code: 'OUTSIDE_PLAN',
      details: { n: 4, got: { tool: 'save', arguments: { text: 'b' } }, planned: null },
    });
  });

  it.each([
    ['another revision', effect('a', { revision: 'r2' })],
    ['another tool', effect('a', { tool: 'drop' })],
    ['other arguments', effect('A')],
  ])('stops before an effect with %s', async (_what, other) => {
    const check = new PlanCheck(await planOf(effect('a')));
    await expect(check.meet(1, other, true)).rejects.toMatchObject({ code: 'OUTSIDE_PLAN' });
  });

  it('is checked in its own order when its calls arrive in another', async () => {
    const check = new PlanCheck(await planOf(effect('a'), effect('b')));
    const met: number[] = [];
    const meet = (n: number, one: PlannedEffect, isEffect = true) =>
      check.meet(n, one, isEffect).then(() => met.push(n));
    const later = [meet(4, effect('b')), meet(2, effect('a'))];
    await meet(3, effect('read'), false);
    check.settled(1);
    await Promise.all(later);
    expect(met).toEqual([3, 2, 4]);
  });

  it('has the same place for an effect that it had before it waited, and what people approved for it', async () => {
    const plan = await planOf(effect('a', { questions: ['Save?'] }), effect('a', { questions: ['Save?'] }));
    const check = new PlanCheck(plan);
    expect(check.open.map(({ at }) => at)).toEqual([0, 1]);
    for (const { at } of check.open) check.give(at, { questions: ['Save?'], revision: 'r1', id: `approval-${at}` });
    expect(await check.meet(1, effect('a'), true)).toMatchObject({ id: 'approval-0' });
    const again = new PlanCheck(structuredClone(check.state));
    expect(again.open).toEqual([]);
    expect(await again.meet(1, effect('a'), true)).toMatchObject({ id: 'approval-0' });
    expect(await again.meet(2, effect('a'), true)).toMatchObject({ id: 'approval-1' });
  });
});
