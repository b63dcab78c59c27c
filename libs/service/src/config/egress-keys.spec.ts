import { expect, it } from 'vitest';
import { egressFaults } from './define-config.js';

it.each(['development', 'dev', 'test'])('an allowlist of every host may be permitted in %s', (environment) => {
  expect(egressFaults({ EGRESS_ALLOW_ANY_HOST: true, ENVIRONMENT: environment })).toEqual([]);
});

it.each(['production', 'staging', '', 'Development', 'dev '])('it is refused in "%s"', (environment) => {
  expect(egressFaults({ EGRESS_ALLOW_ANY_HOST: true, ENVIRONMENT: environment })).toMatchObject([
    { key: 'EGRESS_ALLOW_ANY_HOST' },
  ]);
  expect(egressFaults({ EGRESS_ALLOW_ANY_HOST: false, ENVIRONMENT: environment })).toEqual([]);
});

it('names the setting that permits every host', () => {
  const settings = {
    EGRESS_ALLOW_ANY_HOST: false,
    ENVIRONMENT: 'production',
    A: ['a.example', '*'],
    B: ['*.b.example'],
  };
  expect(egressFaults(settings, 'A', 'B')).toEqual([
    {
      key: 'A',
      message: 'permits every host, which needs EGRESS_ALLOW_ANY_HOST=true',
      remedy: expect.stringContaining('list the hosts'),
    },
  ]);
  expect(egressFaults({ ...settings, ENVIRONMENT: 'dev', EGRESS_ALLOW_ANY_HOST: true }, 'A')).toEqual([]);
});
