/** Numbers of `wasi_snapshot_preview1`, as wasi-libc uses them. Only those this host answers with are named. */
export const ERRNO = {
  SUCCESS: 0,
  BADF: 8,
  INVAL: 28,
  ISDIR: 31,
  MFILE: 33,
  NOENT: 44,
  NOSYS: 52,
  NOTDIR: 54,
  NOTSUP: 58,
  ROFS: 69,
  SPIPE: 70,
  NOTCAPABLE: 76,
} as const;

/** Bits of `oflags` of `path_open`. */
export const OFLAG = { CREAT: 1, DIRECTORY: 2, EXCL: 4, TRUNC: 8 } as const;

/** Bits of `rights` that are ever granted; FD_WRITE is granted to output streams only, never to a file. */
export const RIGHT = {
  FD_READ: 1n << 1n,
  FD_SEEK: 1n << 2n,
  FD_TELL: 1n << 5n,
  FD_WRITE: 1n << 6n,
  PATH_OPEN: 1n << 13n,
  FD_READDIR: 1n << 14n,
  PATH_FILESTAT_GET: 1n << 18n,
  FD_FILESTAT_GET: 1n << 21n,
} as const;

export const FILETYPE = { CHARACTER_DEVICE: 2, DIRECTORY: 3, REGULAR_FILE: 4 } as const;

/** Bytes of a WebAssembly page. */
export const PAGE_BYTES = 65_536;
/** WebAssembly pages of a MiB. */
export const PAGES_PER_MB = 16;
