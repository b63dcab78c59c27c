import { expect, it } from 'vitest';
import { egressFaults } from './egress-keys.js';

it.each(['development', 'dev', 'test'])('an allowlist of every host may be permitted in %s', (environment) => {
  expect(egressFaults({ EGRESS_ALLOW_ANY_HOST: true, ENVIRONMENT: environment })).toEqual([]);
});

it.each(['production', 'staging', '', 'Development', 'dev '])('it is refused in "%s"', (environment) => {
  expect(egressFaults({ EGRESS_ALLOW_ANY_HOST: true, ENVIRONMENT: environment })).toMatchObject([
    { key: 'EGRESS_ALLOW_ANY_HOST' },
  ]);
  expect(egressFaults({ EGRESS_ALLOW_ANY_HOST: false, ENVIRONMENT: environment })).toEqual([]);
});
