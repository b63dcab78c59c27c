import { spawnSync } from 'node:child_process';

const KINDS = [
  ['Redis 7', /^Redis server v=7/],
  ['Redis 8', /^Redis server v=8/],
  ['Valkey', /^(?:Valkey )?server v=/i],
] as const;

/**
 * The servers that a spec of restarts runs on, by their kind: of the path, and those of `TEST_REDIS_SERVERS`, paths separated by commas.
 * @returns undefined as program of a kind that this machine does not have
 */
export function findRedisServers(): { kind: string; program: string | undefined }[] {
  const named = process.env['TEST_REDIS_SERVERS']?.split(',') ?? [];
  const found = [...named, 'redis-server', '/usr/bin/redis-server', 'valkey-server'].map((program) => ({
    program,
    version: String(spawnSync(program, ['--version']).stdout ?? ''),
  }));
  return KINDS.map(([kind, version]) => ({ kind, program: found.find((one) => version.test(one.version))?.program }));
}
