/** Keeps a process of the local fleet running: starts it again when it ends, with backoff, and gives up one that keeps ending. */
import { existsSync, readFileSync } from 'node:fs';

const FIRST_BACKOFF_MS = 200;
const MOST_DEATHS = 5;
const WITHIN_MS = 60_000;
/** A service that refuses its configuration (`EX_CONFIG` of sysexits.h) does so every time. */
const EX_CONFIG = 78;
const SHOWN_CHARS = 300;

/** A process that was given up. `exitCode` is the runner's exit code. */
export class GivenUpError extends Error {
  constructor(message, exitCode) {
    super(message);
    this.exitCode = exitCode;
  }
}

/**
 * A supervised process. It is started by `start()` and ends permanently by `stop()`.
 */
export class Supervised {
  #spawn;
  #say;
  #onGivenUp;
  #deaths = [];
  #timer;
  #stopped = false;

  /**
   * @param {{name: string, broker?: boolean, logFile: string, say: (line: string) => void,
   *   spawn: (onExit: (status: number | string) => void) => ReturnType<import('./child-process.mjs').startProcess>,
   *   onGivenUp: (error: GivenUpError) => void}} options `spawn` starts the process, each time under the same address
   */
  constructor({ name, broker = false, logFile, say, spawn, onGivenUp }) {
    this.name = name;
    this.broker = broker;
    this.logFile = logFile;
    this.#spawn = spawn;
    this.#say = say;
    this.#onGivenUp = onGivenUp;
  }

  /** The process as it runs now, or ran last. */
  child;
  /** Set once the process was given up. */
  failure;
  /** Set by its starter once it has served. Before that every end counts, however slow the machine is to reach it. */
  hasServed = false;

  start() {
    if (!this.#stopped) this.child = this.#spawn((status) => this.#ended(status));
  }

  /** From now on the process is not started again. */
  release() {
    this.#stopped = true;
    clearTimeout(this.#timer);
  }

  async stop(graceMs) {
    this.release();
    await this.child?.stop(graceMs);
  }

  #ended(status) {
    if (this.#stopped) return;
    const now = performance.now();
    this.#deaths = [...this.#deaths.filter((at) => !this.hasServed || now - at < WITHIN_MS), now];
    const how = typeof status === 'string' ? `was ended by ${status}` : `ended with status ${status}`;
    if (status === EX_CONFIG) return this.#giveUp(`${this.name} refused its configuration`, EX_CONFIG);
    if (this.#deaths.length >= MOST_DEATHS) {
      const period = this.hasServed ? 'within a minute' : 'before it was ready';
      return this.#giveUp(`${this.name} ${how}, the ${MOST_DEATHS}th time ${period}`, 1);
    }
    const backoffMs = FIRST_BACKOFF_MS * 2 ** (this.#deaths.length - 1);
    this.#say(`${this.name} ${how}; starting it again in ${backoffMs / 1_000} s. Its log ends: ${this.#logEnd(1)}`);
    this.#timer = setTimeout(() => this.start(), backoffMs);
  }

  #giveUp(what, exitCode) {
    this.#stopped = true;
    this.failure = new GivenUpError(`${what}. Its last lines (${this.logFile}):\n${this.#logEnd(5)}`, exitCode);
    this.#onGivenUp(this.failure);
  }

  #logEnd(lines) {
    if (!existsSync(this.logFile)) return '(no log)';
    const end = readFileSync(this.logFile, 'utf8').trimEnd().split('\n').slice(-lines);
    return end.map((line) => readable(line).slice(0, SHOWN_CHARS)).join('\n') || '(empty)';
  }
}

/** A line of a log: services write JSON. */
function readable(line) {
  try {
    const { level, message } = JSON.parse(line);
    return message === undefined ? line : `${level}: ${message}`;
  } catch {
    return line;
  }
}
