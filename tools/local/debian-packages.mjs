/**
 * Programs from Debian packages, unpacked into a folder with the libraries they need. Installed packages, lists
 * and its cache of archives decide nothing but where the lists come from, so that every machine gets the same result.
 * Runs on Node >= 20 and uses nothing that has to be installed first.
 */
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, renameSync, writeFileSync } from 'node:fs';
import { basename, dirname, join, relative } from 'node:path';
import { lastLines, runProgram } from './run-program.mjs';

/** A download that takes longer has no network, or none that lets it through. */
const CONNECT_WITHIN_S = 15;

/** Why packages could not be unpacked; the message holds the words of the program that failed. */
export class UnpackError extends Error {
  /** @param {string} message @param {'proxy' | 'network' | 'unknown package' | 'other'} kind */
  constructor(message, kind) {
    super(message);
    this.kind = kind;
  }
}

/**
 * Unpacks packages and their libraries into `target`, with a start script for each program in `target/bin`. The folder appears
 * complete and with programs that run, or not at all; one that is there already is replaced.
 * @param {{packages: string[], programs: string[], target: string, verify: (program: string) => Promise<string | undefined>}} options
 *   `verify` returns why a program does not run
 * @throws {UnpackError}
 */
export async function unpackDebianPackages({ packages, programs, target, verify }) {
  mkdirSync(dirname(target), { recursive: true });
  removeLeftovers(target);
  const work = mkdtempSync(`${target}.${process.pid}.`);
  try {
    const files = await download(packages, work);
    const made = join(work, 'made');
    for (const file of files) {
      const { ok, output } = await runProgram('dpkg-deb', ['-x', file, made]);
      if (!ok) throw new UnpackError(`dpkg-deb could not unpack ${basename(file)}: ${lastLines(output, 2)}`, 'other');
    }
    for (const program of programs) writeStarter(made, program);
    for (const program of programs) {
      const problem = await verify(join(made, 'bin', program));
      if (problem) throw new UnpackError(`The downloaded ${program} does not run here: ${problem}`, 'other');
    }
    rmSync(join(work, 'old'), { recursive: true, force: true });
    if (existsSync(target)) renameSync(target, join(work, 'old'));
    try {
      renameSync(made, target);
    } catch (error) {
      // Another start in the same clone was faster.
      if (error.code !== 'ENOTEMPTY' && error.code !== 'EEXIST') throw error;
    }
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

/** Work folders of starts that were killed; the process id is part of their name. */
function removeLeftovers(target) {
  const folder = dirname(target);
  for (const name of readdirSync(folder)) {
    const pid = name.startsWith(`${basename(target)}.`) ? Number(name.split('.')[1]) : 0;
    if (pid && !isAlive(pid)) rmSync(join(folder, name), { recursive: true, force: true });
  }
}

function isAlive(pid) {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return error.code === 'EPERM';
  }
}

/** Downloads packages and the libraries they need; returns the files. The system's lists do when they suffice. */
async function download(packages, work) {
  const status = join(work, 'status');
  writeFileSync(status, '');
  const cache = join(work, 'cache');
  mkdirSync(join(cache, 'archives/partial'), { recursive: true });
  const own = [
    // Nothing counts as installed, and nothing as downloaded.
    ...['-o', `Dir::State::status=${status}`, '-o', `Dir::Cache=${cache}`, '-o', 'Dir::Cache::archives=archives/'],
    // Container images switch off the files that spare the next call a second of reading lists.
    ...['-o', 'Dir::Cache::pkgcache=pkgcache.bin', '-o', 'Dir::Cache::srcpkgcache=srcpkgcache.bin'],
    // The user of apt's downloads cannot enter a folder that is ours alone.
    ...['-o', 'APT::Sandbox::User=root', '-o', 'Acquire::Retries=1'],
    ...['http', 'https'].flatMap((protocol) => ['-o', `Acquire::${protocol}::Timeout=${CONNECT_WITHIN_S}`]),
  ];
  const fetched = async (options) => {
    const folder = mkdtempSync(join(work, 'files-'));
    const names = await withLibraries(packages, options);
    const { ok, output } = await apt('apt-get', [...options, 'download', ...names], folder);
    if (!ok) throw failed('apt-get download', output);
    return readdirSync(folder).map((name) => join(folder, name));
  };
  try {
    return await fetched(own);
  } catch (error) {
    if (!(error instanceof UnpackError)) throw error;
    // Images come without lists, or with lists of packages that are gone: lists of our own need no root and change nothing.
    const lists = join(work, 'lists');
    mkdirSync(join(lists, 'partial'), { recursive: true });
    const options = [...own, '-o', `Dir::State::Lists=${lists}`];
    const { ok, output } = await apt('apt-get', [...options, 'update'], work);
    try {
      return await fetched(options);
    } catch (second) {
      // A source that failed explains a package that is missing.
      const problem = failed('apt-get update', output);
      throw !ok || problem.kind !== 'other' ? problem : second;
    }
  }
}

/**
 * The packages and, over all steps, the libraries they depend on. Not the C library: its loader is the system's, and a second
 * version in one process breaks it.
 */
async function withLibraries(packages, options) {
  const known = new Set(packages);
  for (let open = packages; open.length > 0;) {
    const flags = ['recommends', 'suggests', 'conflicts', 'breaks', 'replaces', 'enhances'].map(
      (kind) => `--no-${kind}`,
    );
    const { ok, stdout, output } = await apt('apt-cache', [...options, 'depends', ...flags, ...open]);
    if (!ok) throw failed('apt-cache depends', output);
    open = [...new Set(libraries(stdout))].filter((name) => !known.has(name));
    for (const name of open) known.add(name);
  }
  return [...known];
}

/**
 * Libraries among the dependencies that `apt-cache depends` prints, one a line: `  Depends: libssl3`. Of alternatives, marked by
 * a bar up to the last, the first; `<virtual>` packages have no file.
 */
function libraries(text) {
  const names = [];
  let alternative = false;
  for (const line of text.split('\n')) {
    const match = /^ ([ |])(?:Pre)?Depends: (\S+)$/.exec(line);
    if (!match) continue;
    if (!alternative && /^lib(?!c6|c-)/.test(match[2])) names.push(match[2]);
    alternative = match[1] === '|';
  }
  return names;
}

/**
 * A script that starts an unpacked program with its libraries. An environment variable of the whole fleet would also affect every other
 * program.
 */
function writeStarter(folder, program) {
  const file = ['usr/bin', 'usr/sbin', 'bin', 'sbin'].map((bin) => join(folder, bin, program)).find(existsSync);
  if (!file) throw new UnpackError(`The packages do not hold ${program}`, 'unknown package');
  const libraryPath = ['usr/lib', 'lib']
    .flatMap((lib) =>
      existsSync(join(folder, lib)) ? readdirSync(join(folder, lib)).map((name) => join(lib, name)) : [],
    )
    .filter((name) => name.includes('-linux-'))
    .map((name) => `$here/${name}`)
    .join(':');
  mkdirSync(join(folder, 'bin'), { recursive: true });
  const starter = join(folder, 'bin', program);
  const lines = [
    '#!/bin/sh',
    'here=${0%/*}/..',
    `export LD_LIBRARY_PATH="${libraryPath}\${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"`,
    `exec "$here/${relative(folder, file)}" "$@"`,
  ];
  writeFileSync(starter, `${lines.join('\n')}\n`);
  chmodSync(starter, 0o755);
}

function apt(program, args, cwd) {
  return runProgram(program, args, { cwd, env: { ...process.env, LC_ALL: 'C' } });
}

/** The error of an apt program: its own words, and which kind of problem they name. */
function failed(what, output) {
  const words = output.split('\n').filter((line) => /^(E|Err|W|  )/.test(line) && !/unsandboxed/.test(line));
  const text = words.join('\n');
  let kind = 'other';
  if (/proxy|\b407\b|\b403\b|Forbidden/i.test(text)) kind = 'proxy';
  else if (/resolv|connect|timed out|unreachable|No route/i.test(text)) kind = 'network';
  else if (/Unable to locate|No packages found|Can't find|no installation candidate/i.test(text))
    kind = 'unknown package';
  return new UnpackError(`${what}: ${lastLines(text || output, 3)}`, kind);
}
