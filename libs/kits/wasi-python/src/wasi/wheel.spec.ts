import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { filesBelow, type FileNode } from './file-tree.js';
import { zones } from './interpreter.js';
import { wheelTree } from './wheel.js';

const WHEEL = readFileSync(new URL('../../python/tzdata-2026.4-py2.py3-none-any.whl', import.meta.url));

it('the time zones have their compiled form, in one shared memory', () => {
  const files = [...filesBelow(zones())];
  const names = files.map(([name]) => name);
  expect(names).toEqual(expect.arrayContaining(['UTC', 'Europe/Berlin', 'America/Argentina/Buenos_Aires', 'GMT']));
  expect(names.length).toBeGreaterThan(590);
  const { bytes, size } = zones().get('UTC') as FileNode;
  expect([Buffer.from(bytes.subarray(0, 4)).toString(), size]).toEqual(['TZif', bytes.length]);
  expect(new Set(files.map(([, file]) => file.bytes.buffer)).size).toBe(1);
  expect(files[0]![1].bytes.buffer).toBeInstanceOf(SharedArrayBuffer);
});

it.each<[string, (wheel: Buffer) => Buffer, RegExp]>([
  ['is cut', (wheel) => wheel.subarray(0, wheel.length - 30), /not a zip archive|damaged/],
  ['is empty', () => Buffer.alloc(0), /not a zip archive/],
  ['is something else', () => Buffer.alloc(1_000, 'x'), /not a zip archive/],
  ['has a damaged file', (wheel) => Buffer.concat([Buffer.alloc(200), wheel.subarray(200)]), /.+/],
  [
    'leaves its folder',
    (wheel) => Buffer.from(wheel.toString('latin1').replaceAll('tzdata/zones', '../../zonesX'), 'latin1'),
    /not plain/,
  ],
])('a wheel that %s is refused', (_how, change, message) => {
  expect(() => wheelTree(change(Buffer.from(WHEEL)))).toThrow(message);
});
