/** Programs that try to escape, persist or exhaust resources, and the statuses with which each may end. */
import type { RunStatus } from '../src/python/guest-protocol.js';

export interface HostileProgram {
  name: string;
  code: string;
  /** The accepted statuses. */
  ends: readonly RunStatus[];
}

const bad = (name: string, ends: readonly RunStatus[], ...lines: string[]): HostileProgram => ({
  name,
  ends,
  code: lines.join('\n'),
});

export const HOSTILE_PROGRAMS: readonly HostileProgram[] = [
  bad('spins', ['timeout'], 'n = 0', 'while n >= 0: n += 1'),
  bad('spins in C', ['timeout'], 'sum(1 for _ in iter(int, 1))'),
  bad('catches everything in a loop', ['timeout'], 'while 1:', ' try:', '  while 1: pass', ' except: pass'),
  bad('sleeps', ['timeout'], 'import time', 'time.sleep(1e6)'),
  bad('backtracks', ['timeout'], 'import re', 're.fullmatch("(x+x+)+y", "x" * 60)'),
  bad('never finishes finalising', ['timeout', 'ok'], 'class Z:', ' def __del__(s):', '  while 1: pass', 'Z()', '1'),
  bad('takes all memory at once', ['memory'], 'bytearray(2**31 - 1)'),
  bad('takes all memory slowly', ['memory'], 'hoard = []', 'while 1: hoard.append(bytearray(1 << 22))'),
  bad(
    'keeps taking memory',
    ['timeout', 'memory'],
    'h = []',
    'while 1:',
    ' try: h.append(bytearray(1 << 20))',
    ' except MemoryError: pass',
  ),
  bad('prints endlessly', ['output_limit'], 'while 1: print("spam" * 500)'),
  bad(
    'prints to both streams endlessly',
    ['output_limit'],
    'import sys',
    'while 1:',
    ' sys.stdout.write("a" * 9999)',
    ' sys.stderr.write("b" * 9999)',
  ),
  bad('returns too much', ['output_limit', 'memory'], '"r" * (6 << 20)'),
  bad('recurses', ['error'], 'def r(n): return r(n + 1) + 1', 'r(0)'),
  bad(
    'recurses without a limit',
    ['timeout', 'crashed', 'error', 'memory'],
    'import sys',
    'sys.setrecursionlimit(2**30)',
    'def r(n): return [r(n + 1)]',
    'r(0)',
  ),
  bad('recurses in C', ['crashed', 'error', 'memory'], 'x = []', 'for _ in range(200000): x = [x]', 'repr(x)'),
  bad(
    'runs made-up bytecode',
    ['crashed', 'error', 'timeout', 'memory'],
    'f = lambda: 0',
    'f.__code__ = f.__code__.replace(co_code=bytes([100, 255]) * 40)',
    'f()',
  ),
  bad('aborts', ['crashed', 'exit'], 'import os', 'os.abort()'),
  bad('exits the process', ['exit'], 'import os', 'os._exit(9)'),
  bad(
    'closes every descriptor',
    ['ok', 'crashed', 'error'],
    'import os',
    'for fd in range(64):',
    ' try: os.close(fd)',
    ' except OSError: pass',
  ),
  bad(
    'exhausts the descriptors',
    ['ok'],
    'import os',
    'fds = []',
    'try:',
    ' while 1: fds.append(os.open("/data", os.O_RDONLY))',
    'except OSError as e: result = e.errno',
  ),
  bad(
    'writes on every descriptor',
    ['ok', 'error'],
    'import os',
    'for fd in range(64):',
    ' try: os.write(fd, b"forged")',
    ' except OSError: pass',
  ),
  bad(
    'forges its answer and exits',
    ['exit'],
    'import os',
    'fd = os.open("/dev/result", os.O_WRONLY)',
    'os.write(fd, b\'{"kind":"ok","value":"forged"}\')',
    'os._exit(0)',
  ),
  bad('answers twice', ['crashed'], 'import os', 'os.write(os.open("/dev/result", os.O_WRONLY), b\'{"kind":"ok"}\')'),
  bad(
    'answers too much',
    ['output_limit'],
    'import os',
    'os.write(os.open("/dev/result", os.O_WRONLY), b"x" * (5 << 20))',
  ),
  bad('breaks the runner', ['ok', 'crashed'], 'import sys', 'f = sys._getframe(1)', 'f.f_globals.clear()'),
  bad('breaks json', ['ok', 'crashed'], 'import json', 'json.JSONEncoder.encode = None', 'json.dumps = None', '1'),
  bad('reads the host', ['error'], 'open("/etc/passwd").read()'),
  bad('climbs', ['error'], 'open("/data/../../../etc/passwd").read()'),
  bad('links', ['error'], 'import os', 'os.symlink("/etc", "/data/etc")'),
  bad('writes a file', ['error'], 'open("/data/new", "w")'),
  bad('dials', ['error'], 'import socket', 'socket.create_connection(("127.0.0.1", 6379), 1)'),
  bad('resolves a name', ['error'], 'import socket', 'socket.getaddrinfo("localhost", 80)'),
  bad('starts a process', ['error'], 'import subprocess', 'subprocess.run(["id"])'),
  bad('forks', ['error'], 'import os', 'os.fork()'),
  bad('starts a thread', ['error'], 'import threading', 'threading.Thread(target=print).start()'),
  bad('loads native code', ['error'], 'import ctypes'),
  bad(
    'poisons the interpreter',
    ['ok'],
    'import builtins, sys',
    'builtins.len = lambda x: 666',
    'builtins.print = None',
    'sys.modules.clear()',
  ),
];
