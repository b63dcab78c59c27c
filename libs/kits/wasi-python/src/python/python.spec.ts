import { beforeAll, describe, expect, it } from 'vitest';
import { bootGuest, type SpecGuest } from '../../spec/guest.js';
import type { RunRequest } from './guest-protocol.js';

let guest: SpecGuest;
beforeAll(() => {
  guest = bootGuest();
});
const run: SpecGuest['run'] = (code, fields) => guest.run(code, fields);

describe('the value of a run', () => {
  it.each([
    ['the last expression', 'x = 20\nx + 22', 42],
    ['the global result', 'result = {"a": (1, 2.5)}\n"not this"', { a: [1, 2.5] }],
    ['nothing', 'x = 1', null],
    ['a string with any character', '"\\u0000\\U0001f600\\u2028"', '\u0000\u{1f600}\u2028'],
    ['the largest safe integer', '2**53 - 1', 9_007_199_254_740_991],
    ['an integer that no double holds', '2**64 - 1', 18446744073709551615n],
    ['such an integer inside', '{"a": [2**53 + 1]}', { a: [9007199254740993n] }],
  ])('is %s', (_name, code, value) => {
    expect(run(code)).toMatchObject({ status: 'ok', value });
  });

  it.each([
    ['NaN', 'float("nan")', 'nan'],
    ['infinity inside', '[1, float("inf")]', '[1, inf]'],
    ['a set', '{1}', '{1}'],
    ['an object of the program', 'class A:\n  def __repr__(s): return "<me>"\nA()', '<me>'],
    ['an object whose repr fails', 'class A:\n  def __repr__(s): 1/0\nA()', '<A: repr failed: division by zero>'],
  ])('is a repr for %s', (_name, code, valueRepr) => {
    expect(run(code)).toMatchObject({ status: 'ok', value: null, valueRepr });
  });

  it('replaces a value that is nested too deep', () => {
    const nested = run('v = []\nfor _ in range(400): v = [v]\nv');
    expect(nested.status).toBe('ok');
    expect(nested.valueRepr).toContain('deeper');
  });
});

it('the HTML of a value that has some is in the reply', () => {
  const code = 'class T:\n  def _repr_html_(self): return "<table/>"\n  def __repr__(self): return "T()"\nT()';
  expect(run(code)).toMatchObject({ status: 'ok', valueRepr: 'T()', html: '<table/>' });
  const failing = run('class T:\n  def _repr_html_(self): 1/0\nT()');
  expect([failing.status, failing.html]).toEqual(['ok', undefined]);
});

describe('the environment of a program', () => {
  it('reads stdin, args and files at every level', () => {
    const fields = { stdin: 'in', args: { a: 1 }, files: { 'a.txt': 'text', 'd/b.bin': { base64: 'AP8=' } } };
    for (const strictness of ['standard', 'strict'] as const) {
      expect(
        run('[stdin, args["a"], files["a.txt"], list(files["d/b.bin"])]', { ...fields, strictness }),
      ).toMatchObject({
        value: ['in', 1, 'text', [0, 255]],
      });
    }
  });

  it('has a folder of its own with the files of the call, which it can change', () => {
    const files = { 'in.csv': 'a,b\n1,2\n', 'd/x.txt': 'hi' };
    const code = `
import os
seen = [open("/data/in.csv").read(), open("in.csv").read(), sorted(os.listdir()), open("d/x.txt").read(), os.getcwd()]
open("in.csv", "w").write("new")
os.remove("d/x.txt"); os.rmdir("d"); os.rename("in.csv", "out.csv")
seen + [open("/data/out.csv").read(), os.listdir()]`;
    const csv = 'a,b\n1,2\n';
    expect(run(code, { files }).value).toEqual([csv, csv, ['d', 'in.csv'], 'hi', '/data', 'new', ['out.csv']]);
  });

  it.each([
    ['open("/usr/share/zoneinfo/UTC", "w")', 69],
    ['import os; os.remove("/usr/share/zoneinfo/UTC")', 69],
    ['import os; os.rename("/usr/share/zoneinfo/UTC", "/data/UTC")', 69],
    ['open("/usr/share/zoneinfo/new", "w")', 69],
    ['open("/elsewhere", "w")', 44],
    ['import os; os.symlink("/etc", "link")', 58],
    ['open("../../etc/passwd")', 76],
  ])('cannot reach beyond its folders: %s', (code, errno) => {
    expect(run(code).error?.message).toContain(`[Errno ${errno}]`);
  });

  it('counts files to the memory of the run, whether they grow first or the heap does', () => {
    const fill = `
import os
held = 0
try:
  with open("big", "wb", buffering=0) as f:
    while True: f.write(bytes(1 << 20)); held += 1
except OSError as error: reason = os.strerror(error.errno)
[held, reason]`;
    const { value } = run(fill, { memoryLimitMb: 64 });
    expect(value).toEqual([expect.any(Number), 'No space left on device']);
    const [held] = value as [number];
    expect(held).toBeGreaterThan(20);
    expect(held).toBeLessThan(48);
    expect(run(`${fill}\nx = bytearray(20 << 20)`, { memoryLimitMb: 64 }).status).toBe('memory');
    const freed = run(`${fill}\nos.remove("big")\nlen(bytearray(20 << 20))`, { memoryLimitMb: 64 });
    expect(freed.value).toBe(20 << 20);
  });

  it('reads its stdin with input() and sys.stdin', () => {
    expect(run('import sys\n[input(), sys.stdin.read()]', { stdin: 'one\ntwo' }).value).toEqual(['one', 'two']);
    expect(run('input()').error?.type).toBe('EOFError');
  });

  it('has an empty environment', () => {
    expect(run('import os\ndict(os.environ)').value).toEqual({});
  });
});

describe('errors', () => {
  it('contain type, message, line and the traceback of the program only', () => {
    const { status, error } = run('x = 1\ndef f(n):\n  return x / n\nf(0)');
    expect(status).toBe('error');
    expect(error).toMatchObject({ type: 'ZeroDivisionError', message: 'division by zero', line: 3 });
    expect(error?.traceback).toContain('line 4, in <module>');
    expect(error?.traceback).toContain('return x / n');
    expect(error?.traceback).not.toContain('sandbox');
  });

  it('omit frames of the library and the runner', () => {
    const { error } = run('import json\njson.loads("{")');
    expect(error).toMatchObject({ type: 'JSONDecodeError', line: 2 });
    expect(error?.traceback).not.toContain('decoder.py');
  });

  it('include their causes', () => {
    const { error } = run('try:\n  1/0\nexcept Exception as e:\n  raise ValueError("b") from e');
    expect(error?.traceback).toMatch(/ZeroDivisionError[\s\S]*direct cause[\s\S]*ValueError: b/);
  });

  it('include the line of a syntax error', () => {
    expect(run('x = 1\ndef (').error).toMatchObject({ type: 'SyntaxError', line: 2 });
  });

  it('keep what was printed before', () => {
    expect(run('import sys\nprint("out")\nprint("err", file=sys.stderr)\n1/0')).toMatchObject({
      status: 'error',
      stdout: 'out\n',
      stderr: 'err\n',
    });
  });

  it('handle an exception without a readable message', () => {
    expect(run('class E(Exception):\n  def __str__(s): 1/0\nraise E()').error).toMatchObject({
      type: 'E',
      message: '<the error has no readable message>',
    });
  });

  it('name a module that this sandbox does not have, at every level', () => {
    for (const strictness of ['standard', 'strict'] as const) {
      expect(run('x = 1\nimport numpy as np', { strictness }).error).toMatchObject({
        type: 'ModuleNotFoundError',
        line: 2,
        message: expect.stringMatching(/^module 'numpy' is not available in this sandbox\. .*math, statistics/),
      });
    }
  });

  it('report exits as exits', () => {
    expect(run('import sys\nsys.exit(3)')).toMatchObject({ status: 'exit', exitCode: 3 });
    expect(run('import os\nos._exit(7)')).toMatchObject({ status: 'exit', exitCode: 7 });
    expect(run('raise SystemExit({"a": 1})')).toMatchObject({ status: 'exit', exitCode: 1 });
    expect(run('raise SystemExit(False)')).toMatchObject({ status: 'exit', exitCode: 0 });
    expect(run('import sys\nsys.exit("bad input")')).toMatchObject({
      status: 'exit',
      exitCode: 1,
      stderr: 'bad input\n',
      error: { message: 'the program exited with code 1: bad input' },
    });
    const unprintable = 'class X:\n  def __str__(s): 1/0\nraise SystemExit(X())';
    expect(run(unprintable)).toMatchObject({ status: 'exit', exitCode: 1 });
  });
});

describe('strictness', () => {
  it('lifts nothing at standard: all of the library can be imported, and every builtin used', () => {
    const code = `
import importlib, sys
missing = []
for name in sorted(sys.stdlib_module_names):
  if name in ("antigravity", "this") or name[0] == "_": continue
  try: importlib.import_module(name)
  except ImportError: missing.append(name)
missing`;
    const { value, status } = run(code, { timeoutMs: 60_000 });
    expect(status).toBe('ok');
    // Native code for threads, processes, terminals and foreign functions, or removed from this build.
    const lacking =
      'ctypes curses fcntl lzma mmap multiprocessing pwd readline resource ssl termios tkinter webbrowser';
    expect(value).toEqual(expect.arrayContaining(lacking.split(' ').filter((name) => name !== 'multiprocessing')));
    const named = 'sys __future__ pathlib io tempfile asyncio zoneinfo os shutil pickle logging subprocess socket';
    expect(named.split(' ').filter((name) => (value as string[]).includes(name))).toEqual([]);
  });

  it.each([
    ['import os', "module 'os' is not allowed at strictness 'strict'. Allowed are collections, itertools, "],
    ['from os import path', "module 'os' is not allowed at strictness 'strict'"],
    ['import json', "module 'json' is not allowed at strictness 'strict'"],
    ['eval("1")', "builtin 'eval' is not allowed at strictness 'strict'. Leave out strictness to use it."],
    ['type(1)', "builtin 'type' is not allowed at strictness 'strict'"],
    ['\u{1d626}\u{1d637}\u{1d622}\u{1d62d}("1")', "builtin 'eval' is not allowed at strictness 'strict'"],
    ['open = open', "builtin 'open' is not allowed at strictness 'strict'"],
  ] as const)('refuses %s at strict', (code, message) => {
    expect(run(`x = 1\n${code}`, { strictness: 'strict' })).toMatchObject({
      status: 'policy',
      error: { type: 'PolicyError', message: expect.stringContaining(message), line: 2 },
    });
  });

  it('allows submodules of an allowed module, and names that the program binds itself', () => {
    const code = `
from collections import abc
import collections.abc as c
def describe(input, type="t"): return [input, type, abc is c]
describe(1)`;
    expect(run(code, { strictness: 'strict' }).value).toEqual([1, 't', true]);
  });

  it('leaves library code its builtins', () => {
    const code = `
import dataclasses, collections, enum
@dataclasses.dataclass
class A: x: int
P = collections.namedtuple("P", "x y")
class C(enum.Enum): RED = 1
[A(1).x, P(1, 2).y, C.RED.name]`;
    expect(run(code, { strictness: 'strict' }).value).toEqual([1, 2, 'RED']);
  });

  it('takes extra modules', () => {
    expect(run('import os', { strictness: 'strict', extraModules: ['os'] }).status).toBe('ok');
  });

  // The lists are guidance. A program that bypasses them still reaches nothing outside the WASI host.
  it.each([
    ['attribute chains', 'import enum\nos = enum.sys.modules["os"]'],
    [
      'the classes of the interpreter',
      'os = [c for c in object.__subclasses__() if c.__name__ == "_wrap_close"][0].__init__.__globals__["sys"].modules["os"]',
    ],
  ])('can be bypassed by %s, which gains nothing', (_name, bypass) => {
    const probe = `
${bypass}
found = [os.getcwd(), dict(os.environ)]
for path in ("/", "/etc", "/proc", "/home", ".", ".."):
  try: found.append(os.listdir(path))
  except OSError as e: found.append(e.errno)
for attempt in (lambda: os.open("/etc/passwd", os.O_RDONLY), lambda: os.system("id"), lambda: os.fork(), lambda: os.mkdir("/x")):
  try: found.append(attempt())
  except (OSError, AttributeError) as e: found.append(e.__class__.__name__)
found`;
    const { value, status } = run(probe, { strictness: 'strict' });
    expect(status).toBe('ok');
    const [cwd, environment, ...rest] = value as unknown[];
    expect([cwd, environment]).toEqual(['/data', {}]);
    expect(JSON.stringify(rest)).not.toMatch(/passwd|proc|home|root/);
    expect(rest.slice(-4, -1)).toEqual(['FileNotFoundError', 'AttributeError', 'AttributeError']);
    // An interpreter with its library in the tree finds the root, but cannot write to the tree.
    expect(['FileNotFoundError', 'OSError']).toContain(rest.at(-1));
  });
});

describe('the form of a program', () => {
  it.each([
    ['a Markdown fence', '```python\nprint(1 + 1)\n```'],
    ['a fence with words around it', 'Here it is:\n\n```py\nprint(1 + 1)\n```\nIt prints 2.'],
    ['a fence of tildes without a language', '~~~\nprint(1 + 1)\n~~~\n'],
    ['a fence that is not closed', '```\nprint(1 + 1)\n'],
    ['an indented fence', '  ```python\n  x = 1\n  print(x + 1)\n  ```'],
    ['common indentation', '    x = 1\n    if x:\n        print(x + 1)\n'],
    ['indentation with tabs', '\tx = 1\n\tprint(x + 1)'],
    ['a byte-order mark', '\ufeffprint(2)'],
    ['line ends of Windows', 'x = 1\r\nprint(x + 1)\r\n'],
  ])('may be %s', (_name, code) => {
    expect(run(code)).toMatchObject({ status: 'ok', stdout: '2\n' });
  });

  it('keeps the line numbers and lines of what was sent', () => {
    const { error } = run('Text\n```python\nx = 1\n1 / 0\n```');
    expect(error).toMatchObject({ type: 'ZeroDivisionError', line: 4 });
    expect(error?.traceback).toContain('    1 / 0\n    ~~^~~');
    expect(run('```python\nx = (\n```').error).toMatchObject({ type: 'SyntaxError', line: 2 });
  });

  it('leaves a fence in a string, and a program with two fences, as they are', () => {
    expect(run('text = """\n```python\nx\n```\n"""\ntext').value).toBe('\n```python\nx\n```\n');
    expect(run('```\na = 1\n```\n```\nb = 2\n```').error).toMatchObject({ type: 'SyntaxError', line: 1 });
  });

  it('may await at its top level', () => {
    const code = 'import asyncio\nresults = await asyncio.gather(*[asyncio.sleep(0, n) for n in range(3)])\nresults';
    expect(run(code)).toMatchObject({ status: 'ok', value: [0, 1, 2] });
  });
});

describe('a sentence in the error', () => {
  it.each<[string, string, string, Partial<RunRequest>]>([
    ['network', 'import socket\nsocket.create_connection(("h", 80))', 'There is no network', {}],
    ['HTTP', 'import urllib.request as r\nr.urlopen("http://example.com")', 'There is no network', {}],
    ['HTTPS', 'import urllib.request as r\nr.urlopen("https://example.com")', 'There is no network', {}],
    ['a client', 'import requests', 'There is no network', {}],
    ['threads', 'import threading\nthreading.Thread(target=print).start()', 'use a loop, or asyncio', {}],
    ['a pool', 'from concurrent.futures import ThreadPoolExecutor', 'use a loop, or asyncio', {}],
    ['a process', 'import subprocess\nsubprocess.run(["ls"])', 'use a loop, or asyncio', {}],
    ['a shell', 'import os\nos.system("ls")', 'use a loop, or asyncio', {}],
    ['a missing file', 'open("b.csv")', '/data has a.csv', { files: { 'a.csv': '' } }],
    ['a file without any', 'open("b.csv")', 'pass files as the argument files', {}],
    ['another folder', 'open("/home/x.txt", "w")', 'Only /data and /tmp can be used', {}],
    ['a read-only folder', 'open("/usr/share/zoneinfo/x", "w")', 'Only /data, the working directory, and /tmp', {}],
    ['input', 'input()', 'argument stdin', {}],
    ['a magic', '%matplotlib inline\nprint(1)', 'Only Python runs here', {}],
    ['an installation', 'pip install numpy', 'Only Python runs here', {}],
    ['a typo of a module', 'import statistic', 'for example statistics;', {}],
    ['pictures', 'import matplotlib.pyplot', 'SVG', {}],
  ])('says what works instead of %s', (_name, code, sentence, fields) => {
    const { status, error } = run(code, fields);
    expect(status).toBe('error');
    expect(error?.message).toContain(sentence);
    expect(error?.traceback.trimEnd().split('\n').at(-1)).toContain(sentence);
  });

  it('is not there where the error has nothing to do with the sandbox', () => {
    expect(run('{}["k"]').error?.message).toBe("'k'");
    expect(run('1 +').error?.message).toBe('invalid syntax (<user>, line 1)');
  });
});

describe('sessions', () => {
  it('keep JSON-serializable variables only', () => {
    const first = run(
      'x = [1, {"a": None}]\nbig = 2**200\nfloating = 1.5\n_hidden = 1\nresult = 9\nimport json\nf = {1}',
      {
        keepSession: true,
      },
    );
    expect(Object.keys(JSON.parse(first.session!))).toEqual(['x', 'big', 'floating']);
    const second = run('x.append(2)\n[x, str(big)]', { session: first.session!, keepSession: true });
    expect(second.value).toEqual([[1, { a: null }, 2], String(2n ** 200n)]);
  });

  it('are not kept if they are too large', () => {
    const { session, sessionNote } = run('x = "a" * (1 << 21)', { keepSession: true });
    expect(session).toBeUndefined();
    expect(sessionNote).toContain('at most');
  });

  it('survive an error of the program', () => {
    expect(JSON.parse(run('x = 1\n1/0', { keepSession: true }).session!)).toEqual({ x: 1 });
  });
});

describe('patches of this build', () => {
  it('sleeps in an event loop without a socket pair', () => {
    const code = `
import asyncio, time
async def nap(): await asyncio.sleep(0.05); return 1
async def main(): return sum(await asyncio.gather(*[nap() for _ in range(5)]))
start = time.monotonic()
[asyncio.run(main()), time.monotonic() - start < 1]`;
    expect(run(code).value).toEqual([5, true]);
    expect(run('import asyncio\nasync def f(): await asyncio.Event().wait()\nasyncio.run(f())').error).toMatchObject({
      type: 'RuntimeError',
    });
  });

  it('measures process time in seconds', () => {
    const spent = run(
      'import time\na = time.process_time()\nfor _ in range(20000): pass\ntime.process_time() - a',
    ).value;
    expect(spent).toBeGreaterThanOrEqual(0);
    expect(spent).toBeLessThan(30);
    expect(run('import time\ntime.thread_time() >= 0').value).toBe(true);
  });

  it('lets a cached function call itself as deep as any function', () => {
    const code = `
import functools
@functools.lru_cache(maxsize=None)
def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)
fib(300) % 10**9`;
    expect(run(code).value).toBe(990_979_600);
  });

  it('pickles classes of the program', () => {
    expect(run('import pickle\nclass A: x = 1\npickle.loads(pickle.dumps(A())).x').value).toBe(1);
  });
});
