import { ToolError, type Principal } from '@toolfleet/contracts';
import { createMetrics } from '@toolfleet/telemetry';
import { FakeClock } from '@toolfleet/testing';
import { expect, it } from 'vitest';
import { TokenRefused, unauthenticated } from './credential.js';
import { RequestLimits } from './key-limits.js';
import { Rejections } from './rejections.js';

it('counts rejected requests by reason and logs one line for ten seconds of them', async () => {
  const clock = new FakeClock();
  const metrics = createMetrics({ version: '0', revision: 'spec' });
  const lines: object[] = [];
  const rejections = new Rejections(metrics, { warn: (line: object) => void lines.push(line) } as never, clock);
  const refused = unauthenticated('invalid', new TokenRefused('its typ is "JWT"'));
  const failures = [refused, refused, new ToolError('SERVICE_UNAVAILABLE')];
  const authenticate = rejections.counted(async () => {
    const failure = failures.shift();
    if (failure) throw failure;
    return { tenantId: 'acme' } as Principal;
  });
  for (const code of ['UNAUTHENTICATED', 'UNAUTHENTICATED', 'SERVICE_UNAVAILABLE'])
    await expect(authenticate(undefined)).rejects.toMatchObject({ code });
  await expect(authenticate(undefined)).resolves.toMatchObject({ tenantId: 'acme' });
  const full = { allowed: false, remainingMinute: 0, remainingHour: 0, resetAtSeconds: 0 };
  const limits = new RequestLimits({ take: () => full }, { free: { minute: 1, hour: 1, day: 1 } }, () =>
    rejections.count('key_limit'),
  );
  const caller: Principal = { tenantId: 'acme', userId: 'ann', roles: [], tools: ['*'], via: 'api_key' };
  expect(() => limits.count(caller)).toThrow('Rate limit exceeded');
  const text = await metrics.scrape();
  for (const [reason, count] of Object.entries({
    unauthenticated: 2,
    auth_unavailable: 1,
    key_limit: 1,
    connection_limit: 0,
  }))
    expect(text).toContain(`toolfleet_requests_rejected_total{reason="${reason}"} ${count}\n`);
  expect(lines).toEqual([]);
  clock.advance(10_000);
  expect(lines).toEqual([
    { rejected: { unauthenticated: 2, auth_unavailable: 1, key_limit: 1 }, tokens: ['its typ is "JWT"'], seconds: 10 },
  ]);
  clock.advance(60_000);
  expect(lines).toHaveLength(1);
});
