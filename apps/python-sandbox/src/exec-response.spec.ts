import { describe, expect, it } from 'vitest';
import type { RunReply, RunStatus } from '@toolfleet/wasi-python';
import { toExecResponse } from './exec-response.js';

const FACTS = {
  queueMs: 3,
  strictness: 'standard',
  interpreter: 'CPython',
  sessionId: null,
  tool: 'execute_python',
  timeoutMs: 900,
};
const reply = (fields: Partial<RunReply> = {}): RunReply => ({
  status: 'ok',
  value: null,
  stdout: '',
  stderr: '',
  truncated: { stdout: false, stderr: false },
  usage: { cpuMs: 1.4, wallMs: 2.6, peakMemoryMb: 23.5 },
  ...fields,
});
const ERROR = { type: 'ValueError', message: 'no', line: 2, traceback: 'Traceback…\nValueError: no\n' };

describe('toExecResponse', () => {
  it('returns the documented output', () => {
    expect(toExecResponse(reply({ value: { a: 1 }, stdout: 'hi\n' }), FACTS)).toEqual({
      ok: true,
      output: {
        value: { a: 1 },
        stdout: 'hi\n',
        stderr: '',
        truncated: { stdout: false, stderr: false },
        usage: { cpu_ms: 1, wall_ms: 3, queue_ms: 3, peak_memory_mb: 24 },
      },
      text: '{"a":1}\nstdout:\nhi',
      metadata: { strictness: 'standard', interpreter: 'CPython', status: 'ok' },
      execute_ms: 3,
      queue_ms: 3,
    });
  });

  it.each<[RunStatus, string, boolean]>([
    ['error', 'SANDBOX_ERROR', false],
    ['policy', 'SANDBOX_POLICY', false],
    ['memory', 'MEMORY_EXCEEDED', false],
    ['output_limit', 'OUTPUT_LIMIT', false],
    ['timeout', 'ATTEMPT_TIMED_OUT', true],
    ['crashed', 'SANDBOX_CRASHED', false],
    ['cancelled', 'CANCELLED', true],
  ])('calls %s %s and keeps what was printed', (status, code, retryable) => {
    const answer = toExecResponse(reply({ status, stdout: 'before', error: ERROR }), FACTS);
    expect(answer).toMatchObject({
      ok: false,
      output: { stdout: 'before' },
      failure: { code, retryable, details: { type: 'ValueError', line: 2, traceback: ERROR.traceback } },
    });
    expect(answer.failure?.message).toContain(status === 'timeout' ? 'timed out' : 'no');
  });

  it('tells of a time-out as every tool does, with the limit that ended the run', () => {
    const error = { ...ERROR, type: 'Timeout', line: null, traceback: '' };
    const ended = (limitMs?: number) =>
      toExecResponse(reply({ status: 'timeout', stdout: 'hi', error, limitMs }), FACTS);
    expect(ended(300)).toMatchObject({
      text: "hi\nTool 'execute_python' timed out after 300ms",
      failure: { message: "Tool 'execute_python' timed out after 300ms", details: { timeout_ms: 300 } },
    });
    expect(ended().failure).toMatchObject({ details: { timeout_ms: 900 } });
  });

  it('treats exit code 0 as success and any other as an error', () => {
    expect(toExecResponse(reply({ status: 'exit', exitCode: 0 }), FACTS)).toMatchObject({
      ok: true,
      text: '(no output)',
    });
    expect(toExecResponse(reply({ status: 'exit', exitCode: 3 }), FACTS)).toMatchObject({
      ok: false,
      failure: { code: 'SANDBOX_ERROR', message: 'the program exited with code 3' },
    });
  });

  it('has the files of the run and the HTML of its value as content, with their types', () => {
    const files = [{ name: 'out.csv', bytes: Buffer.from('a\n') }];
    const answer = toExecResponse(
      reply({ valueRepr: '<T>', html: '<b>1</b>', files, filesOmitted: ['big.bin'] }),
      FACTS,
    );
    expect(answer).toMatchObject({
      text: '<T>\nfiles: out.csv',
      output: { files: [{ name: 'out.csv', content_type: 'text/csv', bytes: 2 }] },
      metadata: { files_omitted: ['big.bin'] },
    });
    expect(answer.content).toEqual([
      { type: 'text', text: answer.text },
      { type: 'resource', resource: { uri: 'file:///data/result.html', mimeType: 'text/html', text: '<b>1</b>' } },
      { type: 'resource', resource: { uri: 'file:///data/out.csv', mimeType: 'text/csv', text: 'a\n' } },
    ]);
    expect(toExecResponse(reply(), FACTS).content).toBeUndefined();
  });

  it('shows the text of an exit', () => {
    const error = { type: 'SystemExit', message: 'the program exited with code 1: bad', line: null, traceback: '' };
    const answer = toExecResponse(reply({ status: 'exit', exitCode: 1, stderr: 'bad\n', error }), FACTS);
    expect(answer).toMatchObject({
      text: 'stderr:\nbad\nSystemExit: the program exited with code 1: bad',
      failure: { code: 'SANDBOX_ERROR', message: 'the program exited with code 1: bad' },
    });
  });

  it('limits its text', () => {
    const { text } = toExecResponse(reply({ stdout: 'x'.repeat(10_000) }), FACTS);
    expect(text.length).toBeLessThanOrEqual(6_000);
    expect(text).toContain('10000 characters in total');
  });

  it('fails with RESULT_TOO_LARGE and keeps the start of the output', () => {
    const answer = toExecResponse(reply({ value: 'v'.repeat(4 << 20), stdout: '\u0000'.repeat(1 << 20) }), FACTS);
    expect(answer).toMatchObject({ ok: false, failure: { code: 'RESULT_TOO_LARGE' }, output: { value: null } });
    expect(Buffer.byteLength(JSON.stringify(answer))).toBeLessThan(1 << 20);
  });

  it('reports whether the session was kept, or why not', () => {
    expect(toExecResponse(reply({ session: '{}' }), { ...FACTS, sessionId: 's' }).metadata).toMatchObject({
      session_id: 's',
      session_kept: true,
    });
    expect(toExecResponse(reply({ sessionNote: 'large' }), { ...FACTS, sessionId: 's' }).metadata).toMatchObject({
      session_kept: false,
      session_note: 'large',
    });
  });
});
