/** Programs as models write them, with the output that CPython 3.12 gives (`spec/model-programs.json`). */
import { execFile, execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { bootGuest, type SpecGuest } from '../../spec/guest.js';
import type { Guest } from '../wasi/restore.js';

interface ModelProgram {
  name: string;
  code: string;
  files?: Record<string, string>;
  stdin?: string;
  stdout: string;
}
const PROGRAMS = JSON.parse(
  readFileSync(new URL('../../spec/model-programs.json', import.meta.url), 'utf8'),
) as ModelProgram[];

describe('a program as models write it gives the output of CPython', () => {
  let interpreter: SpecGuest;
  let last: Guest | null = null;
  beforeAll(() => {
    interpreter = bootGuest();
  });

  it.each(PROGRAMS.map((program) => [program.name, program] as const))(
    '%s',
    (_name, { code, files, stdin, stdout }) => {
      const reply = interpreter.run(code, { files: files ?? {}, stdin: stdin ?? '' }, last);
      last = reply.guest;
      expect(reply.stdout, reply.error?.traceback).toBe(stdout);
      expect(['ok', 'exit']).toContain(reply.status);
    },
  );
});

/** An installed CPython of the guest's version or later. */
const PYTHON = [process.env['TEST_PYTHON'] ?? 'python3', 'python3.12', 'python3.13'].find((name) => {
  try {
    const version = execFileSync(name, ['-c', 'import sys; print(sys.version_info >= (3, 12))'], { encoding: 'utf8' });
    return version.trim() === 'True';
  } catch {
    return false;
  }
});
const AT_ONCE = 4;

describe.skipIf(PYTHON === undefined)('the installed CPython', () => {
  const folder = mkdtempSync(join(tmpdir(), 'toolfleet-programs-'));
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  function outputOf({ code, files, stdin }: ModelProgram, number: number): Promise<string> {
    const cwd = join(folder, String(number));
    mkdirSync(cwd);
    for (const [name, text] of Object.entries(files ?? {})) {
      mkdirSync(dirname(join(cwd, name)), { recursive: true });
      writeFileSync(join(cwd, name), text);
    }
    return new Promise((resolve) => {
      const env = { PATH: process.env['PATH'], PYTHONUTF8: '1' };
      const child = execFile(PYTHON!, ['-I', '-c', code], { cwd, env }, (_error, stdout) => resolve(stdout));
      child.stdin!.end(stdin ?? '');
    });
  }

  it('gives the same output for each of them', async () => {
    const todo = [...PROGRAMS.entries()];
    const worker = async () => {
      for (let next = todo.shift(); next; next = todo.shift()) {
        expect(await outputOf(next[1], next[0]), next[1].name).toBe(next[1].stdout);
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, worker));
  }, 120_000);
});
