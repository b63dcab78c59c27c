import { describe, expect, it, vi } from 'vitest';
import { AbortSource, onAbort } from './abort-source.js';

describe.each([
  ['an AbortSource', () => new AbortSource()],
  ['an AbortController', () => new AbortController()],
])('onAbort on a signal of %s', (_, make) => {
  it('calls each action once, with the reason in the signal', () => {
    const source = make();
    const reason = new Error('over');
    const seen: unknown[] = [];
    onAbort(source.signal, () => seen.push(source.signal.reason));
    onAbort(source.signal, () => seen.push('second'));
    source.abort(reason);
    source.abort(new Error('again'));
    expect(seen).toEqual([reason, 'second']);
  });

  it('calls no action that was ended, also by another action', () => {
    const source = make();
    const ended = vi.fn<() => void>();
    const last = vi.fn<() => void>();
    onAbort(source.signal, ended)();
    let end = (): void => undefined;
    onAbort(source.signal, () => end());
    end = onAbort(source.signal, last);
    source.abort();
    expect([ended.mock.calls.length, last.mock.calls.length]).toEqual([0, 0]);
  });
});

it('the signal of an AbortSource is one of the platform', async () => {
  const source = new AbortSource();
  const joined = AbortSignal.any([source.signal]);
  const heard = new Promise<void>((resolve) => {
    source.signal.addEventListener('abort', () => resolve(), { once: true });
  });
  source.abort('over');
  await heard;
  expect([source.signal.aborted, joined.reason]).toEqual([true, 'over']);
});
