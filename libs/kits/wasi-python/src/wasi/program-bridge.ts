import { createHash } from 'node:crypto';
import { receiveMessageOnPort, type MessagePort } from 'node:worker_threads';
import type { Milliseconds, Clock } from '@toolfleet/base';
import type { ProgramRun } from '../python/guest-protocol.js';
import { HostStop } from './captured-output.js';

/** Maximum size of a request of a program, and of all requests of a run, in bytes. */
const MAX_REQUEST_BYTES = 1024 * 1024;
const MAX_ALL_BYTES = 64 * MAX_REQUEST_BYTES;
/** Requests of one run; a program that floods the device is stopped. Callers may allow fewer. */
const MAX_REQUESTS = 10_000;
/**
 * Requests without an answer. The next one waits in the guest's memory, which is bounded, so every other process holds at
 * most so many of each run. Callers make no more calls at a time.
 */
const MAX_OPEN = 8;
/** Bytes of them; a larger request goes alone, so that no process parses megabytes at a time. */
const MAX_OPEN_BYTES = 256 * 1024;
const NEWLINE = 10;
const NS_PER_MS = 1_000_000n;
/** How far the clock of a program moves with each reading. */
const TICK_NS = 1_000n;

/** The numbers that a thread and the pool share in `BridgeChannel.signal`. */
export const SIGNAL = {
  /** Counts answers, so that a blocked thread can wait for the next one. */
  answers: 0,
  /** Microseconds of waiting for which no `blocked` was sent, since the pool last read them. */
  waitedUs: 1,
  length: 2,
} as const;

/**
 * A longer wait is announced to the pool. Most tool calls take less, and a message, two timers and a replacement thread would cost more
 * than such a call.
 */
const BRIEF_WAIT_MS: Milliseconds = 20;

/** An answer on its way to a program; earlier runs' are dropped. */
export interface ProgramAnswer {
  run: number;
  /** One line of JSON, without the line break. */
  line: string;
}

/** How a thread and the pool exchange requests and answers of a program while the thread is blocked. */
interface BridgeChannel {
  port: MessagePort;
  /** See `SIGNAL`. */
  signal: Int32Array;
  clock: Clock;
  /** Posts a request, one line of JSON from the guest, untrusted. */
  ask: (line: string) => void;
  /** Called when the thread keeps waiting, with the number of answers it has taken. */
  blocked: (taken: number) => void;
}

/**
 * What makes a run a program that calls tools: the device `/dev/tools`, a clock and random numbers. All of it is the same in
 * a second run: time starts when the call was accepted and moves with readings and sleeps only, random bytes follow from a seed.
 */
export class ProgramBridge {
  private readonly encoder = new TextEncoder();
  private request: Uint8Array = new Uint8Array(0);
  private answer: Uint8Array = new Uint8Array(0);
  /** Answers that have arrived and that the guest has not read. */
  private readonly unread: string[] = [];
  private taken = 0;
  private asked = 0;
  private askedBytes = 0;
  /** Bytes of the requests since the last instant without an open one. */
  private openBytes = 0;
  private elapsedNs = 0n;
  private blocks = 0;
  private random: Uint8Array = new Uint8Array(0);

  constructor(
    private readonly channel: BridgeChannel,
    private readonly program: ProgramRun,
    private readonly run: number,
  ) {}

  /**
   * Takes bytes of the guest; sends each complete line, and blocks while too many are unanswered.
   * @throws HostStop for a line that is too long, and for too many
   */
  write(bytes: Uint8Array): void {
    let rest = bytes;
    for (let end = rest.indexOf(NEWLINE); end >= 0; end = rest.indexOf(NEWLINE)) {
      const line = Buffer.concat([this.request, rest.subarray(0, end)]);
      this.request = new Uint8Array(0);
      rest = rest.subarray(end + 1);
      this.askedBytes += line.length;
      if (line.length > MAX_REQUEST_BYTES || this.askedBytes > MAX_ALL_BYTES || this.asked >= MAX_REQUESTS)
        throw new HostStop('output_limit');
      this.waitForCredit(line.length);
      this.asked += 1;
      this.channel.ask(line.toString());
    }
    if (this.request.length + rest.length > MAX_REQUEST_BYTES) throw new HostStop('output_limit');
    if (rest.length > 0) this.request = Buffer.concat([this.request, rest]);
  }

  private waitForCredit(bytes: number): void {
    for (;;) {
      const open = this.asked - this.taken;
      if (open === 0) this.openBytes = 0;
      if (open === 0 || (open < MAX_OPEN && this.openBytes + bytes <= MAX_OPEN_BYTES)) break;
      this.unread.push(this.nextAnswer());
    }
    this.openBytes += bytes;
  }

  /** At least one byte of an answer, and at most `most`; blocks until there is one. Terminating the thread ends the wait. */
  read(most: number): Uint8Array {
    if (this.answer.length === 0) this.answer = this.encoder.encode(`${this.unread.shift() ?? this.nextAnswer()}\n`);
    const part = this.answer.subarray(0, most);
    this.answer = this.answer.subarray(part.length);
    return part;
  }

  private nextAnswer(): string {
    const { port, signal } = this.channel;
    for (;;) {
      const seen = Atomics.load(signal, SIGNAL.answers);
      const received = receiveMessageOnPort(port)?.message as ProgramAnswer | undefined;
      if (received === undefined) this.wait(seen);
      else if (received.run === this.run) {
        this.taken += 1;
        return received.line;
      }
    }
  }

  /** Blocks while the number of answers is `seen`. */
  private wait(seen: number): void {
    const { signal, clock, blocked } = this.channel;
    const began = clock.monotonic();
    const outcome = Atomics.wait(signal, SIGNAL.answers, seen, BRIEF_WAIT_MS);
    Atomics.add(signal, SIGNAL.waitedUs, Math.round((clock.monotonic() - began) * 1_000));
    if (outcome !== 'timed-out') return;
    blocked(this.taken);
    Atomics.wait(signal, SIGNAL.answers, seen);
  }

  /** Nanoseconds since the epoch. */
  now(): bigint {
    this.elapsedNs += TICK_NS;
    return BigInt(this.program.startedAt) * NS_PER_MS + this.elapsedNs;
  }

  /** Nanoseconds since the start of the run. */
  elapsed(): bigint {
    this.elapsedNs += TICK_NS;
    return this.elapsedNs;
  }

  slept(ns: bigint): void {
    this.elapsedNs += ns;
  }

  /** Fills `target` from SHA-256 of the seed and a counter. */
  fillRandom(target: Uint8Array): void {
    for (let at = 0; at < target.length;) {
      if (this.random.length === 0) {
        this.random = createHash('sha256').update(`${this.program.seed} ${this.blocks}`).digest();
        this.blocks += 1;
      }
      const part = this.random.subarray(0, target.length - at);
      target.set(part, at);
      this.random = this.random.subarray(part.length);
      at += part.length;
    }
  }
}
