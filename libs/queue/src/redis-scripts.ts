import type { IRedisClient } from 'bullmq';
import type { Cluster, Redis } from 'ioredis';

export type ScriptArguments = (string | number)[];
/** A Lua script as a function of its keys, then its arguments. */
export type Script<Reply = unknown> = (...keysAndArguments: ScriptArguments) => Promise<Reply>;

/**
 * Registers a script. ioredis runs it by EVALSHA and loads it again on a server that does not know it.
 * @param numberOfKeys undefined: each call passes it before its keys
 */
export function defineScript<Reply = unknown>(
  redis: Redis | Cluster,
  name: string,
  numberOfKeys: number | undefined,
  lua: string,
): Script<Reply> {
  redis.defineCommand(name, { numberOfKeys, lua });
  const command = (redis as unknown as Record<string, Script<Reply>>)[name]!;
  return command.bind(redis);
}

/** The part of ioredis that keeps the defined scripts. */
interface WithScripts {
  scriptsSet: Record<string, { lua: string } | undefined>;
}

/**
 * Defines a script around one of BullMQ's, once per connection, after BullMQ has defined its own.
 * @param keys number of the keys of both
 */
export function defineAround(
  redis: IRedisClient,
  name: string,
  { command, keys, around }: { command: string; keys: number; around: (lua: string) => string },
): void {
  const { scriptsSet } = redis as unknown as WithScripts;
  if (scriptsSet[name]) return;
  // Its name has the version of BullMQ.
  const [, script] = Object.entries(scriptsSet).find(([known]) => known.startsWith(`${command}:`)) ?? [];
  if (!script) throw new Error(`BullMQ defines no script ${command}; its version is not supported`);
  redis.defineCommand(name, { numberOfKeys: keys, lua: around(script.lua) });
}
