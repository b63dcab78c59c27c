import { atTurnEnd } from '@toolfleet/resilience';
import type { Cluster, Redis } from 'ioredis';
import { BATCH } from './scripts.js';

/** Calls of one run of a script: it blocks Redis for some microseconds for each. */
const MAX_CALLS = 64;
/** Longer values are arguments of their own, so that they are not escaped once more. */
const MAX_PACKED = 1_000;

type Command = (...keysAndArguments: (string | number)[]) => Promise<string>;
/** The result of the script for one call. */
type Reply = number | string | false | undefined;

interface QueuedScript {
  key: string;
  values: readonly (string | number)[];
  resolve: (result: Reply) => void;
  reject: (error: unknown) => void;
}

/**
 * A script on the key of one call, run once for all calls of one turn of the event loop. Nothing is delayed: commands of a turn leave in one
 * write at its end. In a cluster, where the keys are in different slots, each call is its own run.
 */
export class ScriptBatch {
  readonly #command: Command;
  #asked: QueuedScript[] = [];

  /** @param name of the command, unique on the connection */
  constructor(
    private readonly redis: Redis | Cluster,
    name: string,
    lua: string,
  ) {
    redis.defineCommand(name, { lua: BATCH.replace('--SCRIPT', () => lua) });
    this.#command = Reflect.get(redis, name) as Command;
  }

  /** @returns the result of the script for this call. Rejects with the error of Redis, or of its connection */
  run(key: string, ...values: readonly (string | number)[]): Promise<Reply> {
    return new Promise((resolve, reject) => {
      this.#asked.push({ key, values, resolve, reject });
      if (this.redis.isCluster || this.#asked.length >= MAX_CALLS) this.#send();
      else if (this.#asked.length === 1) atTurnEnd(() => this.#send());
    });
  }

  #send(): void {
    const asked = this.#asked;
    this.#asked = [];
    if (asked.length === 0) return;
    const keys: string[] = [];
    const packed: (string | number)[][] = [];
    const long: string[] = [];
    for (const { key, values } of asked) {
      keys.push(key);
      const texts: (string | number)[] = [];
      for (const value of values) {
        // Redis cannot read JSON with half of a surrogate pair.
        const text = String(value).toWellFormed();
        texts.push(text.length <= MAX_PACKED ? text : long.push(text) + 1);
      }
      packed.push(texts);
    }
    this.#command.call(this.redis, keys.length, ...keys, JSON.stringify(packed), ...long).then(
      (reply) => {
        const results = JSON.parse(reply) as (Reply | { err: string })[];
        for (const [index, { resolve, reject }] of asked.entries()) {
          const result = results[index];
          if (typeof result === 'object') reject(new Error(result.err));
          else resolve(result);
        }
      },
      (error: unknown) => {
        for (const { reject } of asked) reject(error);
      },
    );
  }
}
