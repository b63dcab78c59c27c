import { ToolError } from '@toolfleet/contracts';
import { describe, expect, it } from 'vitest';
import { classifyBuildError, classifyStartupError } from './startup-errors.js';
import { FatalStartupError } from './lifecycle.js';

const coded = (code: string, message = 'x', cause?: unknown) => Object.assign(new Error(message, { cause }), { code });

describe('an error during the start', () => {
  it.each([
    ['a closed port', coded('ECONNREFUSED')],
    ['every address of a name', new AggregateError([coded('ECONNREFUSED'), coded('ENETUNREACH')])],
    ['a socket error below', new Error('no Redis', { cause: coded('ETIMEDOUT') })],
    ['a Redis that loads', new Error('LOADING Redis is loading the dataset in memory')],
    ['a Redis without a primary', new Error('All sentinels are unreachable. Retrying from scratch')],
    ['a PostgreSQL that starts', coded('57P03')],
    ['a fleet service that is not there', new ToolError('EXECUTOR_UNAVAILABLE')],
  ])('%s is waited for', (_name, error) => expect(classifyStartupError(error)).toBe('unreachable'));

  it.each([
    ['a refusal', new FatalStartupError('x')],
    ['a refused login', new Error('WRONGPASS invalid username-password pair')],
    ['missing rights', coded('REDIS_AWAY', 'x', new Error("NOPERM User has no permissions to run 'info'"))],
    ['a certificate behind a lost connection', coded('NATS_AWAY', 'x', coded('SELF_SIGNED_CERT_IN_CHAIN'))],
    ['a database that does not exist', coded('3D000')],
    ['a file', coded('ENOENT')],
  ])('%s is a mistake', (_name, error) => expect(classifyStartupError(error)).toBe('mistake'));

  it.each([
    ['a fault of the program', new TypeError('undefined is not a function')],
    ['anything unknown', new Error('surprise')],
    ['no error at all', 'text'],
  ])('%s ends the process', (_name, error) => expect(classifyStartupError(error)).toBe('bug'));

  it('of building the components is a mistake unless it is a bug', () => {
    expect(classifyBuildError(new RangeError('GATEWAY_TOKEN_SECRET needs at least 32 characters'))).toBe('mistake');
    expect(classifyBuildError(coded('ERR_INVALID_URL'))).toBe('mistake');
    expect(classifyBuildError(new TypeError('x is undefined'))).toBe('bug');
    expect(classifyBuildError(coded('ERR_MODULE_NOT_FOUND'))).toBe('bug');
  });
});
