/**
 * Loaded into the processes of a fleet that is counted (`--import`). In COUNT_SOCKETS, a folder, it opens a control socket for each
 * thread: `<pid>.<thread>.sock`, thread 0 is the main one. Commands and answers are JSON lines. It costs nothing until a command arrives.
 */
import { rmSync } from 'node:fs';
import { Session } from 'node:inspector/promises';
import { createRequire } from 'node:module';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { threadId } from 'node:worker_threads';

const session = new Session();
/** Work in native code, of which coverage sees nothing. */
const native = { 'JSON.parse': 0, 'JSON.stringify': 0, 'JSON bytes': 0, 'SQLite statements': 0 };
const { parse, stringify } = JSON;

/** Counts native work from now on. The count leaves this file out. */
function countNative() {
  JSON.parse = (...args) => {
    native['JSON.parse'] += 1;
    native['JSON bytes'] += String(args[0]).length;
    return parse(...args);
  };
  JSON.stringify = (...args) => {
    native['JSON.stringify'] += 1;
    const text = stringify(...args);
    native['JSON bytes'] += text?.length ?? 0;
    return text;
  };
  const statement = statementPrototype();
  for (const method of statement ? ['run', 'get', 'all', 'iterate'] : []) {
    const run = statement[method];
    statement[method] = function (...args) {
      native['SQLite statements'] += 1;
      return Reflect.apply(run, this, args);
    };
  }
}

function statementPrototype() {
  try {
    const Database = createRequire(join(process.cwd(), 'package.json'))('better-sqlite3');
    return Object.getPrototypeOf(new Database(':memory:').prepare('select 1'));
  } catch {
    return undefined; // A process that may not load it has no database.
  }
}

const commands = {
  async start() {
    session.connect();
    countNative();
    await session.post('Profiler.enable');
    await session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false });
    return { program: process.argv[1] };
  },
  /** Since the last `take`: functions that ran, as [url, name, offset, count], and the native work. */
  async take() {
    const { result } = await session.post('Profiler.takePreciseCoverage');
    const functions = result
      .filter(({ url }) => url !== import.meta.url)
      .flatMap(({ url, functions: all }) =>
        all.map(({ functionName, ranges: [{ startOffset, count }] }) => [url, functionName, startOffset, count]),
      )
      .filter(([, , , count]) => count > 0);
    const taken = { functions, native: { ...native } };
    for (const name of Object.keys(native)) native[name] = 0;
    return taken;
  },
};

if (process.env.COUNT_SOCKETS) {
  const path = join(process.env.COUNT_SOCKETS, `${process.pid}.${threadId}.sock`);
  const server = createServer((socket) => {
    socket.on('error', () => undefined).unref();
    createInterface({ input: socket }).on('line', async (line) => {
      const answer = await commands[parse(line)]().catch((error) => ({ error: error.message }));
      socket.write(`${stringify(answer)}\n`);
    });
  });
  // A process that may not open a socket is not counted.
  server.on('error', () => undefined);
  server.listen(path).unref();
  process.on('exit', () => rmSync(path, { force: true }));
}
