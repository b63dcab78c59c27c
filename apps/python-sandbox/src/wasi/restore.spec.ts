import { beforeAll, describe, expect, it } from 'vitest';
import { bootGuest, request, type SpecGuest } from '../../spec/guest.js';
import { encodeRequest } from '../python/result-frame.js';

let guest: SpecGuest;
beforeAll(() => {
  guest = bootGuest();
});
const bytes = (ready: ReturnType<SpecGuest['restore']>) => new Uint8Array(ready.memory.memory.buffer);

describe('a restored interpreter', () => {
  it('lies in a reused memory byte for byte as in a fresh one', () => {
    const used = guest.restore();
    used.run(encodeRequest(request('import builtins, json\nbuiltins.leak = 1\njson.leak = 2\nx = b"S3CRET" * 100000')));
    expect(used.grew()).toBe(false);
    const reused = guest.restore(used.memory);
    expect(reused.memory).toBe(used.memory);
    expect(Buffer.compare(bytes(reused), bytes(guest.restore()))).toBe(0);
  });

  it('does so even when the run before scribbled over all of its memory', () => {
    const used = guest.restore();
    bytes(used).fill(0xa5);
    const reused = guest.restore(used.memory);
    expect(reused.memory).toBe(used.memory);
    expect(Buffer.compare(bytes(reused), bytes(guest.restore()))).toBe(0);
  });

  it('never reuses a memory that grew, or one with another limit', () => {
    const used = guest.run('x = bytearray(100 << 20)');
    expect(used.guest.grew()).toBe(true);
    expect(guest.restore(used.guest.memory).memory).not.toBe(used.guest.memory);
    const small = guest.restore(null, 64);
    expect(guest.restore(small.memory, 512).memory).not.toBe(small.memory);
  });

  it('forgets what the run before planted', () => {
    guest.run(
      'import builtins, json, sys\nbuiltins.len = lambda x: 666\njson.dumps = None\nsys.modules["math"] = None',
    );
    expect(guest.run('import math, json\n[len([1]), math.floor(1.5), json.dumps(1)]').value).toEqual([1, 1, '1']);
  });

  it('draws other random numbers each time, and says that hash seeds are shared', () => {
    const draw = () => guest.run('import random, os\n[random.random(), os.urandom(8).hex()]').value as unknown[];
    const [a, b] = [draw(), draw()];
    expect(a[0]).not.toBe(b[0]);
    expect(a[1]).not.toBe(b[1]);
    expect(guest.run('hash("a")').valueRepr ?? guest.run('hash("a")').value).toEqual(
      guest.run('hash("a")').valueRepr ?? guest.run('hash("a")').value,
    );
  });

  it('holds its memory limit', () => {
    expect(guest.run('b = bytearray(10**9)').status).toBe('memory');
    expect(guest.run('l = []\nwhile True: l.append([])', { memoryLimitMb: 64 }).status).toBe('memory');
    expect(guest.run('try:\n  b = bytearray(10**9)\nexcept MemoryError: result = 1').value).toBe(1);
    expect(guest.run('len(bytearray(50 << 20))', { memoryLimitMb: 64 }).status).toBe('memory');
    expect(guest.run('len(bytearray(30 << 20))', { memoryLimitMb: 64 }).value).toBe(30 << 20);
  });

  it('has an image of the size the limits are planned for', () => {
    expect(guest.snapshot.image.byteLength).toBeLessThan(20 * 1024 * 1024);
    expect(guest.snapshot.pages).toBeLessThan(32 * 16);
  });
});
