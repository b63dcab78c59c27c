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
