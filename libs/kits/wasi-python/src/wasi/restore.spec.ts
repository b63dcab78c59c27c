import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { beforeAll, describe, expect, it, vi } from 'vitest';
import { bootGuest, request, type SpecGuest } from '../../spec/guest.js';
import { encodeRequest } from '../python/guest-protocol.js';
import type { Guest } from './restore.js';

let guest: SpecGuest;
beforeAll(() => {
  guest = bootGuest();
});
const bytes = ({ memory }: Guest) => new Uint8Array(memory.buffer);
const runOf = (used: Guest, code: string) => used.run(encodeRequest(request(code)));
const expectFresh = (reused: Guest) => expect(Buffer.compare(bytes(reused), bytes(guest.restore()))).toBe(0);

/** Programs that write in unusual places and sizes, and end in every way. */
const SCRIBBLERS = {
  'a value': 'x = b"S3CRET" * 100000',
  'modules of the image': 'import builtins, json\nbuiltins.leak = 1\njson.leak = 2',
  'the whole heap': 'x = [bytearray(b"\\xa5" * n) for n in range(1, 2500)]',
  'numbers of all sizes':
    'import array\nfor t in "bBhHiIlLqQfd":\n  a = array.array(t, [1]) * 999\n  for i in range(len(a)): a[i] = 7\na.byteswap()',
  'bytes across pages':
    'import struct\nb = bytearray(40000)\nfor i in range(0, 39990, 13): struct.pack_into("<dq", b, i % 39984, 1.5, -1)',
  'a deep stack': 'def f(n): return n and 1 + f(n - 1)\nf(300)',
  'an overflow of the C stack':
    'import sys\nsys.setrecursionlimit(10**6)\nx = []\nfor _ in range(50000): x = [x]\nrepr(x)',
  'crafted bytecode':
    'f = lambda: 0\nf.__code__ = f.__code__.replace(co_code=b"\\x7c\\xff" * 40 + f.__code__.co_code)\nf()',
  'reads from the host':
    'import os, random, time\nos.urandom(70000)\nrandom.seed()\ntime.sleep(0.001)\nos.listdir("/data")\nos.stat("/data")',
  'an exit': 'import os\nos._exit(3)',
  'an endless output': 'while True: print("x" * 1000)',
} as const;

describe.each([true, false])('a restored interpreter (marks its writes: %s)', (marksWrites) => {
  let one: SpecGuest;
  beforeAll(() => {
    one = marksWrites ? guest : bootGuest({ marksWrites });
  });

  it.each(Object.entries(SCRIBBLERS))(
    'is byte for byte the same in a reused memory as in a fresh one, after %s',
    (_, code) => {
      const used = one.restore();
      const fresh = Buffer.from(bytes(used));
      runOf(used, code);
      expect(used.hasGrown).toBe(false);
      expect(Buffer.compare(bytes(used), fresh)).not.toBe(0);
      const reused = one.restore(used);
      expect(reused).toBe(used);
      expect(Buffer.compare(bytes(reused), fresh)).toBe(0);
      const { end } = runOf(reused, '1');
      expect(end).toEqual({ kind: 'returned' });
    },
  );
});

describe('a restored interpreter', () => {
  it('equals the snapshot after a thousand runs, and was checked meanwhile', () => {
    let used: Guest | null = null;
    for (let i = 0; i < 1_000; i++) {
      used = guest.restore(used);
      runOf(used, `x = [${i}] * ${i}`);
    }
    expectFresh(guest.restore(used));
  });

  it('is refused if the check of every 500th restore finds a difference', () => {
    const used = guest.restore();
    bytes(used)[bytes(used).length - 1] = 1; // not by the guest: no mark tells of it
    const often = () => {
      for (let i = 0; i < 500; i++) guest.restore(used);
    };
    expect(often).toThrow(/not that of the snapshot/);
  });

  it('does not reuse a memory that grew or has a lower maximum', () => {
    const used = guest.run('x = bytearray(100 << 20)');
    expect(used.guest.hasGrown).toBe(true);
    expect(guest.restore(used.guest)).not.toBe(used.guest);
    const small = guest.restore(null, 64);
    expect(guest.restore(small, 512)).not.toBe(small);
  });

  it('does not keep the memory that it replaces', () => {
    setFlagsFromString('--expose-gc');
    const collect = runInNewContext('gc') as () => void;
    setFlagsFromString('--no-expose-gc');
    const replaced = () => {
      const small = guest.restore(null, 64);
      return { memory: new WeakRef(small.memory), successor: guest.restore(small, 512) };
    };
    const { memory, successor } = replaced();
    return vi.waitFor(() => {
      collect();
      expect(memory.deref() === undefined).toBe(true);
      expect(successor.hasGrown).toBe(false);
    });
  });

  it('reuses a memory with a lower limit, which it enforces to the page', () => {
    const fill = `blocks = []
try:
  while True: blocks.append(bytearray(1 << 16))
except MemoryError: pass`;
    const alone = guest.restore(null, 64);
    runOf(alone, fill);
    const pages = ({ memory }: Guest) => memory.buffer.byteLength / 65_536;
    expect(pages(alone)).toBe(64 * 16);
    const large = guest.restore();
    const bounded = guest.restore(large, 64);
    expect(bounded).toBe(large);
    runOf(bounded, fill);
    expect(pages(bounded)).toBe(64 * 16);
    const prepared = guest.restore();
    prepared.prepare();
    expect(prepared.bound(64 * 16)).toBe(true);
    runOf(prepared, fill);
    expect(pages(prepared)).toBe(64 * 16);
    expect(prepared.bound(1024 * 16)).toBe(false);
  });

  it('gives the next run its own limit again', () => {
    const used = guest.restore(guest.restore(), 64);
    runOf(used, 'x = 1');
    expect(guest.restore(used)).toBe(used);
    const { frame } = runOf(used, 'len(bytearray(100 << 20))');
    expect(JSON.parse(Buffer.from(frame!).toString()).value).toBe(100 << 20);
  });

  it('keeps nothing that the previous run planted', () => {
    const used = guest.restore();
    runOf(
      used,
      'import builtins, json, sys\nbuiltins.len = lambda x: 666\njson.dumps = None\nsys.modules["math"] = None',
    );
    const { frame } = runOf(guest.restore(used), 'import math, json\n[len([1]), math.floor(1.5), json.dumps(1)]');
    expect(JSON.parse(Buffer.from(frame!).toString()).value).toEqual([1, 1, '1']);
  });

  it('equals the snapshot after prepare, with or without a run', () => {
    const used = guest.restore();
    const fresh = Buffer.from(bytes(used));
    used.prepare();
    expect(Buffer.compare(bytes(used), fresh)).not.toBe(0);
    expect(Buffer.compare(bytes(guest.restore(used)), fresh)).toBe(0);
    used.prepare();
    const { end } = runOf(used, 'import random\nrandom.random()');
    expect(end).toEqual({ kind: 'returned' });
    expect(Buffer.compare(bytes(guest.restore(used)), fresh)).toBe(0);
  });

  it('shows no traces of the warm-up at boot', () => {
    const seen = guest.run(
      'import linecache, sys\n[sorted(globals()), sys.argv, sys.stdin.read(), list(linecache.cache), sys.modules["__main__"].__dict__ is globals()]',
    );
    expect(seen.value).toEqual([
      [
        '__builtins__',
        '__doc__',
        '__loader__',
        '__name__',
        '__package__',
        '__spec__',
        'args',
        'files',
        'linecache',
        'stdin',
        'sys',
      ],
      ['<user>'],
      '',
      ['<user>'],
      true,
    ]);
    expect(seen.stdout + seen.stderr).toBe('');
  });

  it('has new random numbers in each run, and a shared hash seed', () => {
    const draw = () => guest.run('import random, os\n[random.random(), os.urandom(8).hex()]').value as unknown[];
    const [a, b] = [draw(), draw()];
    expect(a[0]).not.toBe(b[0]);
    expect(a[1]).not.toBe(b[1]);
    expect(guest.run('hash("a")').valueRepr ?? guest.run('hash("a")').value).toEqual(
      guest.run('hash("a")').valueRepr ?? guest.run('hash("a")').value,
    );
  });

  it('enforces its memory limit', () => {
    expect(guest.run('b = bytearray(10**9)').status).toBe('memory');
    expect(guest.run('l = []\nwhile True: l.append([])', { memoryLimitMb: 64 }).status).toBe('memory');
    expect(guest.run('try:\n  b = bytearray(10**9)\nexcept MemoryError: result = 1').value).toBe(1);
    expect(guest.run('len(bytearray(60 << 20))', { memoryLimitMb: 64 }).status).toBe('memory');
    expect(guest.run('len(bytearray(30 << 20))', { memoryLimitMb: 64 }).value).toBe(30 << 20);
  });

  it('has an image of the planned size', () => {
    const kept = guest.snapshot.stretches.reduce((sum, [, length]) => sum + length, 0);
    expect(kept).toBeLessThan(20 * 1024 * 1024);
    expect(guest.snapshot.pages).toBeLessThan(32 * 16);
  });
});
