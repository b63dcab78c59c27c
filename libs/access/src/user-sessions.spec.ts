import { FakeClock } from '@toolfleet/testing';
import { describe, expect, it } from 'vitest';
import { UserSessions } from './user-sessions.js';

const SESSION = { tenant_id: 'acme', user_id: 'ann', roles: [], session_id: 's1', expires_at: 9_000_000 };
const token = (text: string) => text.padEnd(43, 'x');

describe('look-ups of tokens', () => {
  it('ask once in a minute for one that is unknown, and each time for one that is known', async () => {
    const clock = new FakeClock(1_000);
    const asked: unknown[] = [];
    const sessions = new UserSessions(
      {
        ask: async <T>(_subject: string, body: unknown) => {
          asked.push(body);
          return ((body as { token?: string }).token === token('known') ? { session: SESSION } : {}) as T;
        },
      },
      clock,
    );
    const refusal = { code: 'UNAUTHENTICATED' };
    for (let times = 0; times < 5; times += 1)
      await expect(sessions.verifyClient(token('made-up'))).rejects.toMatchObject(refusal);
    expect(asked).toHaveLength(1);
    // The same text as a session cookie is another question.
    for (let times = 0; times < 5; times += 1)
      await expect(sessions.verify(token('made-up'))).rejects.toMatchObject(refusal);
    expect(asked).toHaveLength(2);
    clock.advance(60_001);
    await expect(sessions.verifyClient(token('made-up'))).rejects.toMatchObject(refusal);
    for (let times = 0; times < 2; times += 1)
      expect((await sessions.verifyClient(token('known'))).principal).toMatchObject({ userId: 'ann', via: 'oauth' });
    expect(asked).toHaveLength(5);
  });

  it('are limited, so that made-up tokens take a share of the service only', async () => {
    const answers: ((reply: object) => void)[] = [];
    const ask = <T>() => new Promise<T>((resolve) => void answers.push(resolve as (reply: object) => void));
    const sessions = new UserSessions({ ask }, new FakeClock(1_000));
    const flood = Array.from({ length: 300 }, (_, index) => sessions.verifyClient(token(`made-up-${index}`)));
    const settled = Promise.allSettled(flood);
    expect(answers).toHaveLength(100);
    for (const answer of answers) answer({});
    const codes = (await settled).map((one) =>
      one.status === 'rejected' ? (one.reason as { code: string }).code : 'ok',
    );
    expect(codes.filter((code) => code === 'UNAUTHENTICATED')).toHaveLength(100);
    expect(codes.filter((code) => code === 'SERVICE_UNAVAILABLE')).toHaveLength(200);
    const next = sessions.verifyClient(token('known'));
    answers.at(-1)!({ session: SESSION });
    expect((await next).principal.userId).toBe('ann');
  });
});
