import type { JsonObject } from '@toolfleet/contracts';
import type { PythonJobPolicy } from '@toolfleet/contracts/execution';
import { describe, expect, it } from 'vitest';
import { planRun } from './run-arguments.js';

const LIMITS = { maxTimeoutMs: 60_000, memoryLimitMb: 512 };
const POLICY: PythonJobPolicy = {
  default_strictness: 'standard',
  extra_allowed_modules: { strict: ['json'] },
};
const plan = (args: JsonObject, fields: { timeoutMs?: number; context?: JsonObject; python?: PythonJobPolicy } = {}) =>
  planRun(
    {
      arguments: { code: '1', ...args },
      context: { tenant_id: 't', ...fields.context },
      timeout_ms: fields.timeoutMs ?? 120_000,
      python: fields.python ?? POLICY,
    },
    LIMITS,
  );

describe('planRun', () => {
  it.each([
    ['the gateway, which knows the strictness', { strictness: 'lenient' }, 30_000, 30_000],
    ['its own maximum', {}, 120_000, 60_000],
    ['what the call asks for', { strictness: 'strict', timeout_seconds: 42 }, 120_000, 42_000],
    ['what the gateway allows', { timeout_seconds: 60 }, 2_500, 2_500],
  ])('takes its time from %s', (_name, args, timeoutMs, expected) => {
    expect(plan(args, { timeoutMs }).request.timeoutMs).toBe(expected);
  });

  it('takes the extra modules of strict, and lenient for standard', () => {
    expect(plan({ strictness: 'strict' }).request).toMatchObject({ strictness: 'strict', extraModules: ['json'] });
    const python: PythonJobPolicy = { ...POLICY, default_strictness: 'lenient' };
    for (const planned of [plan({ strictness: 'lenient' }), plan({}), plan({}, { python })])
      expect(planned.request.strictness).toBe('standard');
    expect(plan({}, { python: { ...POLICY, default_strictness: 'strict' } }).request.strictness).toBe('strict');
  });

  it('can lower the memory limit but not raise it', () => {
    const limit = (memory: number) =>
      plan({}, { python: { ...POLICY, memory_limit_mb: memory } }).request.memoryLimitMb;
    expect([limit(128), limit(4_096), limit(1)]).toEqual([128, 512, 32]);
    expect(plan({}).request.memoryLimitMb).toBe(512);
  });

  it('uses the session of the arguments, else that of the call', () => {
    expect(plan({}).sessionId).toBeNull();
    expect(plan({}, { context: { session_id: 'outer' } }).sessionId).toBe('outer');
    expect(plan({ session_id: 'own' }, { context: { session_id: 'outer' } })).toMatchObject({
      sessionId: 'own',
      request: { keepSession: true },
    });
  });

  it.each<[string, JsonObject, string]>([
    ['no code', { code: 1 }, 'code: must be a string'],
    ['NUL in the code', { code: 'print(1)\0' }, 'code: must not contain NUL'],
    ['too much code', { code: '#'.repeat(256 * 1024 + 1) }, 'code: 262145 bytes, at most 262144'],
    ['an unknown level', { strictness: 'toString' }, 'strictness: must be lenient'],
    ['too many args', { args: 'a'.repeat(1024 * 1024) }, 'args: '],
    ['a file outside the tree', { files: { '../x': '' } }, 'files: file name "../x"'],
    ['an absolute file', { files: { '/x': '' } }, 'files: file name "/x"'],
    ['a file used as a folder', { files: { a: '', 'a/b': '' } }, 'files: file name "a/b"'],
    ['invalid file content', { files: { a: 1 } }, 'files: "a" must be'],
    ['invalid base64', { files: { a: { base64: '!!' } } }, 'files: "a" must be'],
    ['too many bytes of files', { files: { a: 'x'.repeat(4 * 1024 * 1024), b: 'y' } }, 'files: 4194305 bytes'],
    ['no time', { timeout_seconds: 0.5 }, 'timeout_seconds: must be'],
    ['too much time', { timeout_seconds: 61 }, 'timeout_seconds: must be'],
    ['stdin that is not a string', { stdin: {} }, 'stdin: must be a string'],
    ['a session without a name', { session_id: '' }, 'session_id: must be'],
  ])('is refused for %s', (_name, args, message) => {
    expect(() => plan(args)).toThrow(
      expect.objectContaining({ code: 'ARGUMENTS_INVALID', message: expect.stringContaining(message) }),
    );
  });

  it('accepts four MiB of files, and names that exist on Object.prototype', () => {
    const { files } = plan({ files: { a: 'x'.repeat(4 * 1024 * 1024 - 1), constructor: 'y' } }).request;
    expect(Object.keys(files)).toEqual(['a', 'constructor']);
  });
});
