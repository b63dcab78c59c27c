import fc from 'fast-check';
import { startNats, type NatsServer } from '@toolfleet/testing';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { LocalExchange } from './local-exchange.js';
import { NatsClient } from './nats-client.js';

const receive = (): void => undefined;

describe('a message stays in the process', () => {
  const stays = (
    subscriptions: readonly { subject: string; queue?: string }[],
    subject: string,
    isRequest: boolean,
  ): boolean => {
    const exchange = new LocalExchange();
    for (const { subject: of, queue } of subscriptions) exchange.join({ subject: of, queue, receive });
    return exchange.receiverOf(subject, isRequest) !== undefined;
  };

  it.each([
    ['a request to a group', [{ subject: 'budget.reserve', queue: 'budget' }], 'budget.reserve', true],
    ['a request by a wildcard', [{ subject: 'registry.*.acme', queue: 'r' }], 'registry.get.acme', true],
    ['a reply', [{ subject: '_INBOX.abc.*' }], '_INBOX.abc.1', false],
    ['progress', [{ subject: 'exec.progress.caller.*' }], 'exec.progress.caller.t', false],
  ])('%s', (_what, subscriptions, subject, isRequest) => {
    expect(stays(subscriptions, subject, isRequest)).toBe(true);
  });

  it.each([
    ['a request that the process does not serve', [], 'budget.reserve', true],
    ['an announcement to all replicas', [{ subject: 'registry.changed' }], 'registry.changed', false],
    ['an event to a group', [{ subject: 'calls.finished', queue: 'records' }], 'calls.finished', false],
    [
      'a request that two groups receive',
      [
        { subject: 'a.b', queue: 'one' },
        { subject: 'a.*', queue: 'two' },
      ],
      'a.b',
      true,
    ],
    ['a request that somebody listens to', [{ subject: 'a.b', queue: 'one' }, { subject: 'a.>' }], 'a.b', true],
  ])('not %s', (_what, subscriptions, subject, isRequest) => {
    expect(stays(subscriptions, subject, isRequest)).toBe(false);
  });

  it('until the subscription ends', () => {
    const exchange = new LocalExchange();
    const leave = ['a.b', 'a.*'].map((subject) => exchange.join({ subject, queue: 'g', receive }));
    expect(exchange.receiverOf('a.b', true)).toBeDefined();
    leave[0]?.();
    expect(exchange.receiverOf('a.b', true)).toBeDefined();
    leave[1]?.();
    expect(exchange.receiverOf('a.b', true)).toBeUndefined();
  });
});

describe('subscriptions', () => {
  let nats: NatsServer;
  beforeAll(async () => {
    nats = await startNats();
  });
  afterAll(() => nats?.stop());

  it('match the subjects that the server matches', async () => {
    const client = await NatsClient.connect({ url: nats.url, name: 'spec' });
    const token = fc.constantFrom('a', 'b', 'c');
    const subjects = fc.array(token, { minLength: 1, maxLength: 4 });
    const patterns = fc
      .tuple(fc.array(fc.oneof(token, fc.constant('*')), { minLength: 1, maxLength: 3 }), fc.boolean())
      .map(([tokens, open]) => [...tokens, ...(open ? ['>'] : [])]);
    await fc.assert(
      fc.asyncProperty(patterns, subjects, async (pattern, subject) => {
        const received: string[] = [];
        const subscription = client.subscribe(pattern.join('.'), (message) => void received.push(message.subject), {
          queue: 'g',
        });
        client.publish(subject.join('.'), 1);
        // Both travel on one connection, so the message has arrived when the ping is answered.
        await client.link.flush();
        subscription.unsubscribe();
        const exchange = new LocalExchange();
        exchange.join({ subject: pattern.join('.'), queue: 'g', receive });
        expect(exchange.receiverOf(subject.join('.'), true) !== undefined).toBe(received.length > 0);
      }),
      { numRuns: 200 },
    );
    await client.close();
  });
});
