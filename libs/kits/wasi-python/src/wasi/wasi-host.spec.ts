import { readFileSync } from 'node:fs';
import { SystemClock } from '@toolfleet/base';
import fc from 'fast-check';
import { beforeEach, describe, expect, it } from 'vitest';
import { CapturedOutput, HostStop } from './captured-output.js';
import { DescriptorTable, buildTree } from './guest-files.js';
import { ERRNO, OFLAG, RIGHT } from './guest-memory.js';
import { RESULT_CAP, WasiHost } from './wasi-host.js';

const DEV = 3;
const DATA = 4;
const PATH = 1_000;
const OUT = 2_000;
const IOVS = 3_000;
const BUFFER = 4_096;
let memory: WebAssembly.Memory;
let output: CapturedOutput;
let host: WasiHost;
let wasi: ReturnType<WasiHost['imports']>;
beforeEach(() => {
  memory = new WebAssembly.Memory({ initial: 2, maximum: 4 });
  output = new CapturedOutput(100);
  host = new WasiHost({
    clock: new SystemClock(),
    output,
    args: ['python', 'ä'],
    preopens: { '/data': buildTree({ 'a.txt': 'hello', 'd/b': { base64: 'AAE=' } }) },
  });
  host.bind(memory);
  wasi = host.imports();
});

const view = () => new DataView(memory.buffer);
const bytes = () => new Uint8Array(memory.buffer);
function put(text: string, at = PATH): number {
  const encoded = new TextEncoder().encode(text);
  bytes().set(encoded, at);
  return encoded.length;
}
function open(path: string, { fd = DATA, oflags = 0, rights = RIGHT.FD_READ } = {}): number {
  return wasi.path_open(fd, 0, PATH, put(path), oflags, rights, 0n, 0, OUT);
}
const opened = () => view().getUint32(OUT, true);
function iov(at: number, length: number): void {
  view().setUint32(IOVS, at, true);
  view().setUint32(IOVS + 4, length, true);
}
function write(fd: number, length: number): number {
  iov(BUFFER, length);
  return wasi.fd_write(fd, IOVS, 1, OUT);
}

describe('the file tree of a guest', () => {
  it('can be read from any position', () => {
    expect(open('a.txt')).toBe(0);
    const fd = opened();
    iov(BUFFER, 3);
    expect(wasi.fd_read(fd, IOVS, 1, OUT)).toBe(0);
    expect(Buffer.from(bytes().slice(BUFFER, BUFFER + 3)).toString()).toBe('hel');
    expect(wasi.fd_seek(fd, -1n, 2, OUT)).toBe(0);
    expect(wasi.fd_read(fd, IOVS, 1, OUT)).toBe(0);
    expect(opened()).toBe(1);
    expect(wasi.fd_seek(fd, -100n, 0, OUT)).toBe(ERRNO.INVAL);
    expect(wasi.fd_pread(fd, IOVS, 1, -1n, OUT)).toBe(ERRNO.INVAL);
  });

  it.each([
    ['to write', 'a.txt', { rights: RIGHT.FD_WRITE }, ERRNO.ROFS],
    ['to truncate', 'a.txt', { oflags: OFLAG.TRUNC }, ERRNO.ROFS],
    ['to create', 'new', { oflags: OFLAG.CREAT }, ERRNO.ROFS],
    ['above the preopen', '../x', {}, ERRNO.NOTCAPABLE],
    ['above it by a detour', 'd/../../x', {}, ERRNO.NOTCAPABLE],
    ['below a file', 'a.txt/x', {}, ERRNO.NOTDIR],
    ['a missing file', 'nothing', {}, ERRNO.NOENT],
    ['a file as a directory', 'a.txt', { oflags: OFLAG.DIRECTORY }, ERRNO.NOTDIR],
    ['below an unknown descriptor', 'a.txt', { fd: 99 }, ERRNO.BADF],
  ] as const)('cannot be opened %s', (_what, path, options, errno) => {
    expect(open(path, options)).toBe(errno);
  });

  it('cannot be changed by any import', () => {
    for (const name of [
      'fd_allocate',
      'fd_filestat_set_size',
      'fd_pwrite',
      'path_create_directory',
      'path_link',
      'path_rename',
      'path_symlink',
      'path_unlink_file',
      'path_remove_directory',
    ] as const) {
      expect(wasi[name](), name).toBe(ERRNO.ROFS);
    }
    open('a.txt');
    expect(write(opened(), 1)).toBe(ERRNO.ROFS);
  });

  it('cannot be left through any path (property)', () => {
    const table = new DescriptorTable({ '/data': buildTree({ 'a/b': 'x', c: 'y' }) });
    const part = fc.oneof(fc.constantFrom('..', '.', '', 'a', 'b', 'c', '/', '...', '%2e%2e'), fc.string());
    const inside = new Set<unknown>();
    const collect = (node: unknown): void => {
      inside.add(node);
      if (node instanceof Map) for (const child of node.values()) collect(child);
    };
    collect(table.directory(DATA));
    fc.assert(
      fc.property(fc.array(part, { maxLength: 12 }), (pieces) => {
        const node = table.resolve(DATA, pieces.join('/'));
        expect(typeof node === 'number' || inside.has(node)).toBe(true);
      }),
    );
  });
});

describe('descriptors', () => {
  it('are limited to 64, plus those for the result', () => {
    let last = 0;
    for (let i = 0; i < 100 && last === 0; i++) last = open('a.txt');
    expect(last).toBe(ERRNO.MFILE);
    expect(open('result', { fd: DEV, rights: RIGHT.FD_WRITE })).toBe(0);
    expect(wasi.fd_close(opened())).toBe(0);
  });

  it('can all be closed without affecting the host', () => {
    for (let fd = 0; fd < 10; fd++) wasi.fd_close(fd);
    expect(write(1, 5)).toBe(ERRNO.BADF);
    expect(wasi.fd_close(1)).toBe(ERRNO.BADF);
  });

  it('include no sockets', () => {
    for (const name of ['sock_accept', 'sock_recv', 'sock_send', 'sock_shutdown'] as const) {
      expect(wasi[name]()).toBe(ERRNO.NOSYS);
    }
  });
});

describe('output', () => {
  it('is cut and marked at its cap, and stopped if it floods', () => {
    bytes().fill(0x61, BUFFER, BUFFER + 400);
    expect(write(1, 60)).toBe(0);
    expect(write(1, 60)).toBe(0);
    expect([output.text(1).length, output.isCut(1), output.isCut(2)]).toEqual([100, true, false]);
    expect(() => {
      for (let i = 0; i < 10; i++) write(2, 400);
    }).toThrow(HostStop);
  });

  it('to the result device is separate from stdout and limited', () => {
    open('result', { fd: DEV, rights: RIGHT.FD_WRITE });
    const fd = opened();
    bytes().fill(0x62, BUFFER, BUFFER + 3);
    write(fd, 3);
    expect(Buffer.from(host.result()!).toString()).toBe('bbb');
    expect(output.text(1)).toBe('');
    expect(() => {
      for (let i = 0; i <= RESULT_CAP / 65_536; i++) write(fd, 65_536);
    }).toThrow(HostStop);
  });
});

describe('a hostile guest', () => {
  it('cannot access memory out of bounds', () => {
    iov(0xffff_fff0, 100);
    expect(() => wasi.fd_write(1, IOVS, 1, OUT)).toThrow(RangeError);
    expect(output.text(1)).toBe('');
    expect(() => wasi.random_get(-8, 16)).toThrow(RangeError); // 0xffff_fff8 as the engine passes it
    expect(() => wasi.clock_time_get(0, 0n, 0x7fff_fff0)).toThrow(RangeError);
    expect(() => wasi.args_get(0x7fff_0000, 0)).toThrow(RangeError);
    expect(() => wasi.poll_oneoff(0x7fff_0000, OUT, 1, OUT)).toThrow(RangeError);
  });

  it('has all writes of the host marked', () => {
    const written = new WebAssembly.Memory({ initial: 1, maximum: 1 });
    host.bind(memory, written);
    const marks = () => [...new Uint8Array(written.buffer).entries()].flatMap(([unit, mark]) => (mark ? [unit] : []));
    wasi.clock_time_get(0, 0n, 4_092);
    wasi.random_get(12_288, 4_097);
    wasi.fd_prestat_dir_name(DATA, 20_480, 5);
    expect(marks()).toEqual([0, 1, 3, 4, 5]);
  });

  it('can grow its memory', () => {
    write(1, 1);
    (memory as unknown as { grow: (pages: number) => void }).grow(1);
    bytes().fill(0x63, 150_000, 150_004);
    iov(150_000, 4);
    expect(wasi.fd_write(1, IOVS, 1, OUT)).toBe(0);
    expect(output.text(1)).toContain('cccc');
    expect(output.pages).toBe(3);
  });

  it('has an empty environment and its own arguments', () => {
    wasi.environ_sizes_get(OUT, OUT + 4);
    expect([view().getUint32(OUT, true), view().getUint32(OUT + 4, true)]).toEqual([0, 0]);
    wasi.args_sizes_get(OUT, OUT + 4);
    expect([view().getUint32(OUT, true), view().getUint32(OUT + 4, true)]).toEqual([2, 10]);
  });

  it('faces code that imports only its own files', () => {
    for (const file of ['wasi-host', 'guest-files', 'guest-memory', 'captured-output', 'restore']) {
      const source = readFileSync(new URL(`./${file}.ts`, import.meta.url), 'utf8');
      const imported = [...source.matchAll(/from '([^']+)'/g)].map((match) => match[1]!);
      expect(imported.filter((name) => !name.startsWith('.') && name !== '@toolfleet/base')).toEqual([]);
      expect(source).not.toMatch(/\bprocess\b\.|require\(|import\(/);
    }
  });
});
