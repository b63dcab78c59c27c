import { readFileSync } from 'node:fs';
import { SystemClock } from '@toolfleet/base';
import fc from 'fast-check';
import { beforeEach, describe, expect, it } from 'vitest';
import { CapturedOutput, HostStop } from './captured-output.js';
import { buildTree, filesBelow } from './file-tree.js';
import { DescriptorTable } from './guest-files.js';
import { ERRNO, FDFLAG_APPEND, OFLAG, RIGHT } from './guest-memory.js';
import { RESULT_CAP, WasiHost } from './wasi-host.js';

const DEV = 3;
const RUN = 4;
const TMP = 5;
const LIB = 6;
/** Bytes that the files of the run may have. */
const ROOM = 10_000;
const PATH = 1_000;
const OUT = 2_000;
const IOVS = 3_000;
const BUFFER = 4_096;
let memory: WebAssembly.Memory;
let output: CapturedOutput;
let host: WasiHost;
let wasi: ReturnType<WasiHost['imports']>;
let charged: number;
beforeEach(() => {
  charged = 0;
  memory = new WebAssembly.Memory({ initial: 2, maximum: 4 });
  output = new CapturedOutput(100);
  host = new WasiHost({
    clock: new SystemClock(),
    output,
    args: ['python', 'ä'],
    preopens: { '/lib': buildTree({ 'a.txt': 'hello', 'd/b': { base64: 'AAE=' } }) },
    charge: (bytes) => (charged += bytes) <= ROOM,
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
function open(path: string, { fd = LIB, oflags = 0, rights = RIGHT.FD_READ as bigint, fdflags = 0 } = {}): number {
  return wasi.path_open(fd, 0, PATH, put(path), oflags, rights, 0n, fdflags, OUT);
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

describe('the files outside the folders of a run', () => {
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
    const file = (): [number, number] => [PATH, put('d/b')];
    const calls = {
      path_create_directory: () => wasi.path_create_directory(LIB, PATH, put('new')),
      path_rename: () => wasi.path_rename(LIB, ...file(), LIB, ...file()),
      'path_rename to the run': () => wasi.path_rename(LIB, ...file(), RUN, PATH, 1),
      path_unlink_file: () => wasi.path_unlink_file(LIB, ...file()),
      path_remove_directory: () => wasi.path_remove_directory(LIB, PATH, put('d')),
      path_filestat_set_times: () => wasi.path_filestat_set_times(LIB, 0, ...file(), 0n, 1n, 4),
    };
    for (const [name, call] of Object.entries(calls)) expect(call(), name).toBe(ERRNO.ROFS);
    open('a.txt');
    const fd = opened();
    expect(write(fd, 1)).toBe(ERRNO.ROFS);
    const others = [
      wasi.fd_pwrite(fd, IOVS, 1, 0n, OUT),
      wasi.fd_filestat_set_size(fd, 0n),
      wasi.fd_allocate(fd, 0n, 9n),
    ];
    expect(others).toEqual([ERRNO.ROFS, ERRNO.ROFS, ERRNO.ROFS]);
    expect([wasi.path_link(), wasi.path_symlink()]).toEqual([ERRNO.NOTSUP, ERRNO.NOTSUP]);
  });

  it('cannot be left through any path (property)', () => {
    const table = new DescriptorTable({ '/lib': buildTree({ 'a/b': 'x', c: 'y' }) });
    const part = fc.oneof(fc.constantFrom('..', '.', '', 'a', 'b', 'c', '/', '...', '%2e%2e'), fc.string());
    const inside = new Set<unknown>();
    const collect = (node: unknown): void => {
      inside.add(node);
      if (node instanceof Map) for (const child of node.values()) collect(child);
    };
    collect(table.directory(LIB));
    fc.assert(
      fc.property(fc.array(part, { maxLength: 12 }), (pieces) => {
        const node = table.resolve(LIB, pieces.join('/'));
        expect(typeof node === 'number' || inside.has(node)).toBe(true);
      }),
    );
  });
});

const NEW = { fd: RUN, oflags: OFLAG.CREAT as number, rights: RIGHT.ALL as bigint };

describe('the folders of a run', () => {
  const make = (path: string, text: string, fd = RUN) => {
    expect(open(path, { ...NEW, fd })).toBe(0);
    const made = opened();
    put(text, BUFFER);
    expect(write(made, text.length)).toBe(0);
    return made;
  };
  const remove = (path: string, fd = RUN) => wasi.path_unlink_file(fd, PATH, put(path));
  const read = (path: string, fd = RUN) => {
    expect(open(path, { fd })).toBe(0);
    iov(BUFFER, 1_000);
    wasi.fd_read(opened(), IOVS, 1, OUT);
    return Buffer.from(bytes().slice(BUFFER, BUFFER + opened())).toString();
  };
  const move = (from: string, to: string, toFd = RUN) => {
    const length = put(from);
    return wasi.path_rename(RUN, PATH, length, toFd, PATH + length, put(to, PATH + length));
  };

  it('can be written and moved between, and hold what the caller sent', () => {
    const folder = buildTree({ 'in.txt': 'given', 'kept.txt': 'x' });
    host.mount(folder, new Map());
    const fd = make('out.txt', 'hello');
    iov(BUFFER, 2);
    expect(wasi.fd_pwrite(fd, IOVS, 1, 6n, OUT)).toBe(0);
    expect(read('out.txt')).toBe('hello\0he');
    expect(move('out.txt', 'moved.txt', TMP)).toBe(0);
    expect([open('out.txt', { fd: RUN }), read('moved.txt', TMP)]).toEqual([ERRNO.NOENT, 'hello\0he']);
    expect(move('in.txt', 'same.txt')).toBe(0);
    const written = [...filesBelow(folder)].filter(([, file]) => file.isWritten);
    expect(written.map(([path]) => path)).toEqual(['same.txt']);
  });

  it('append, truncate and refuse what exists', () => {
    make('a', 'one');
    open('a', { ...NEW, fdflags: FDFLAG_APPEND });
    write(opened(), 2);
    expect(read('a')).toBe('oneon');
    expect(open('a', { ...NEW, oflags: OFLAG.CREAT | OFLAG.EXCL })).toBe(ERRNO.EXIST);
    open('a', { ...NEW, oflags: OFLAG.TRUNC });
    expect(read('a')).toBe('');
    expect(wasi.path_create_directory(RUN, PATH, put('a'))).toBe(ERRNO.EXIST);
    expect(wasi.path_create_directory(RUN, PATH, put('d'))).toBe(0);
    make('d/x', '1');
    expect(open('d', NEW)).toBe(ERRNO.ISDIR);
    expect(wasi.path_remove_directory(RUN, PATH, put('d'))).toBe(ERRNO.NOTEMPTY);
    expect(wasi.path_remove_directory(RUN, PATH, put('a'))).toBe(ERRNO.NOTDIR);
    expect([remove('d'), remove('.'), move('d', 'd/e')]).toEqual([ERRNO.ISDIR, ERRNO.INVAL, ERRNO.INVAL]);
  });

  it('have no more bytes than the run may have, and give back what is removed', () => {
    const fd = make('a', 'x');
    expect(wasi.fd_filestat_set_size(fd, BigInt(ROOM))).toBe(ERRNO.NOSPC);
    expect(wasi.fd_filestat_set_size(fd, 2n ** 62n)).toBe(ERRNO.NOSPC);
    expect(wasi.fd_pwrite(fd, IOVS, 1, 2n ** 40n, OUT)).toBe(ERRNO.NOSPC);
    expect(wasi.fd_filestat_set_size(fd, 6_000n)).toBe(0);
    // A file without a name keeps its bytes until it is closed.
    expect(remove('a')).toBe(0);
    expect(charged).toBeGreaterThanOrEqual(6_000);
    expect(open('b', NEW)).toBe(0);
    const other = opened();
    expect(wasi.fd_filestat_set_size(other, 6_000n)).toBe(ERRNO.NOSPC);
    expect(wasi.fd_close(fd)).toBe(0);
    expect(wasi.fd_filestat_set_size(other, 6_000n)).toBe(0);
    remove('b');
    wasi.fd_close(other);
    expect(charged).toBe(0);
    let made = 0;
    for (; open(`f${made}`, NEW) === 0; made += 1) wasi.fd_close(opened());
    expect(made).toBeLessThan(10);
  });

  it('are empty in the next run', () => {
    host.mount(buildTree({}), new Map());
    make('a', 'secret');
    make('b', 'secret', TMP);
    host.reset();
    expect([open('a', { fd: RUN }), open('b', { fd: TMP })]).toEqual([ERRNO.NOENT, ERRNO.NOENT]);
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
    wasi.fd_prestat_dir_name(RUN, 20_480, 5);
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
    for (const file of ['wasi-host', 'file-tree', 'guest-files', 'guest-memory', 'captured-output', 'restore']) {
      const source = readFileSync(new URL(`./${file}.ts`, import.meta.url), 'utf8');
      const imported = [...source.matchAll(/from '([^']+)'/g)].map((match) => match[1]!);
      expect(imported.filter((name) => !name.startsWith('.') && name !== '@toolfleet/base')).toEqual([]);
      expect(source).not.toMatch(/\bprocess\b\.|require\(|import\(/);
    }
  });
});
