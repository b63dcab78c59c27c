import { isJsonObject, ToolError } from '@toolfleet/contracts';
import type { KeptResults, LargeResults } from '@toolfleet/journal';
import type { JobQueue } from '@toolfleet/queue';
import { jobKeyPattern } from '@toolfleet/queue/redis';
import { Cluster, type Redis } from 'ioredis';
import { toMaker } from '@toolfleet/access';
import type { PurgeStep, PurgeTask } from './purges.js';

/** Keys per SCAN. Each step reads a field of some of them in one round trip. */
const PAGE = 500;

interface ScanDeps {
  /** Opens a connection that may list keys. The user of a gateway may not; see `redis.acl.template`. */
  connect(): Promise<{ redis: Redis; close(): Promise<void> }>;
  queues: readonly Pick<JobQueue, 'name' | 'discard' | 'forgetShare'>[];
  /** Stops counting deleted results against the quota of their tenant. */
  results: Pick<KeptResults, 'drop'>;
  /** Deletes large results that records refer to. */
  large?: Pick<LargeResults, 'delete'>;
}

/**
 * Everything in Redis that is found by its key only: queued jobs, records of calls and of the journal with their idempotency keys,
 * cached results, sessions of the sandbox, rate limits. Most of it expires within a day anyway. One pass over all keys.
 */
export function scannedKeys(deps: ScanDeps): PurgeStep {
  return {
    name: 'calls',
    async run(task) {
      if (task.userId === undefined && !task.dryRun)
        await Promise.all(deps.queues.map((queue) => queue.forgetShare(task.tenantId)));
      const { redis, close } = await deps.connect();
      try {
        const connection: unknown = redis;
        const nodes = connection instanceof Cluster ? connection.nodes('master') : [redis];
        for (const node of nodes) await scanNode(node, redis, task, deps);
      } catch (error) {
        if (!(error instanceof Error) || !error.message.startsWith('NOPERM')) throw error;
        throw new ToolError('AUTH_NOT_CONFIGURED', {
          message: 'Redis does not let this gateway list keys; set REDIS_PURGE_PASSWORD for the user "purge"',
          cause: error,
        });
      } finally {
        await close();
      }
    },
  };
}

async function scanNode(node: Redis, redis: Redis, task: PurgeTask, deps: ScanDeps): Promise<void> {
  const kinds = keyKinds(redis, task, deps);
  let cursor = '0';
  do {
    const [next, keys] = await node.scan(cursor, 'COUNT', PAGE);
    cursor = next;
    for (const kind of kinds) {
      const own = keys.filter((key) => kind.pattern.test(key));
      if (own.length > 0) await task.count(kind.name, await removeKind(kind, own, node, task.dryRun));
    }
  } while (cursor !== '0');
}

/** Keys of one kind: how they are recognized, and what goes with them. */
interface KeyKind {
  name: string;
  pattern: RegExp;
  /** Fields of the hash that tell its owner; without them the pattern does. */
  fields?: readonly string[];
  belongs?(values: readonly (string | null)[]): boolean;
  /** Removes the key and what belongs to it. Default: the key. */
  remove?(key: string, values: readonly (string | null)[]): Promise<unknown>;
}

async function removeKind(kind: KeyKind, keys: readonly string[], node: Redis, dryRun: boolean): Promise<number> {
  const { fields, belongs } = kind;
  let found: { key: string; values: (string | null)[] }[] = keys.map((key) => ({ key, values: [] }));
  if (fields && belongs) {
    const pipeline = node.pipeline();
    for (const key of keys) pipeline.hmget(key, ...fields);
    const replies = (await pipeline.exec()) ?? [];
    found = keys.flatMap((key, index) => {
      const [error, values] = replies[index] ?? [];
      // A key of another type, such as the list of a queue, does not belong to this kind.
      if (error?.message.startsWith('WRONGTYPE')) return [];
      if (error) throw error;
      return belongs(values as (string | null)[]) ? [{ key, values: values as (string | null)[] }] : [];
    });
  }
  if (dryRun) return found.length;
  await Promise.all(found.map(({ key, values }) => (kind.remove ? kind.remove(key, values) : node.unlink(key))));
  return found.length;
}

function keyKinds(redis: Redis, task: PurgeTask, { queues, results, large }: ScanDeps): KeyKind[] {
  const { tenantId, userId, keyIds } = task;
  const tenant = escape(encodeURIComponent(tenantId));
  const makers = new Set([...keyIds.map((keyId) => toMaker({ keyId, userId: '' })), toMaker({ userId: userId ?? '' })]);
  const isOwn = (of: string | null | undefined, user?: string | null, maker?: string | null): boolean =>
    of === tenantId && (userId === undefined || user === userId || (maker ? makers.has(maker) : false));
  const kinds: KeyKind[] = [
    {
      name: 'async_calls',
      pattern: /^\{call:[^}]*\}:record$/,
      fields: ['tenant', 'user', 'maker', 'object'],
      belongs: ([of, user, maker]) => isOwn(of, user, maker),
      remove: async (key, [, , , object]) => {
        if (object) await large?.delete(object);
        await redis.unlink(key, key.replace(/record$/, 'events'), key.replace(/record$/, 'answers'));
        await results.drop(tenantId, key.slice('{call:'.length, key.indexOf('}')));
      },
    },
    {
      name: 'journal_records',
      pattern: /^\{c:[^}]*\}$/,
      fields: ['tenant', 'user', 'key', 'object'],
      belongs: ([of, user]) => isOwn(of, user),
      remove: async (key, [, , idempotencyKey, object]) => {
        if (object) await large?.delete(object);
        if (idempotencyKey) await redis.unlink(idempotencyKey);
        await redis.unlink(key);
        await results.drop(tenantId, key.slice('{c:'.length, -1));
      },
    },
    // Entries name no user, and a cache may lose them.
    {
      name: 'cached_results',
      pattern: new RegExp(`^rc:\\{${tenant}:.*\\}:${userId === undefined ? '' : '(?!version$)'}`, 's'),
      remove: async (key) => {
        await redis.unlink(key);
        await results.drop(tenantId, key);
      },
    },
    {
      name: 'sandbox_sessions',
      pattern: new RegExp(`^\\{s:${tenant}:${userId === undefined ? '' : `${escape(encodeURIComponent(userId))}:`}`),
    },
    ...queues.map((queue) => queuedJobs(queue, isOwn)),
  ];
  if (userId === undefined) kinds.push({ name: 'rate_limits', pattern: new RegExp(`^rl:${escape(tenantId)}:`, 's') });
  return kinds;
}

/** Jobs of a queue, waiting and finished. A running job is cancelled, and its record goes with the next purge. */
function queuedJobs(
  queue: Pick<JobQueue, 'name' | 'discard'>,
  isOwn: (tenant: string | null, user?: string | null, maker?: string | null) => boolean,
): KeyKind {
  const pattern = jobKeyPattern(queue.name);
  return {
    name: 'jobs',
    pattern,
    fields: ['data'],
    belongs: ([data]) => {
      const job: unknown = data ? JSON.parse(data) : undefined;
      if (!isJsonObject(job)) return false;
      const { tenant_id, request, context } = job;
      const { principal } = isJsonObject(request) ? request : {};
      const users = [principal, context].flatMap((from) =>
        isJsonObject(from) ? [from['userId'], from['user_id']] : [],
      );
      const keyId = isJsonObject(principal) ? principal['keyId'] : undefined;
      const maker = typeof keyId === 'string' ? toMaker({ keyId, userId: '' }) : undefined;
      const tenant = typeof tenant_id === 'string' ? tenant_id : null;
      return users.concat(null).some((user) => isOwn(tenant, typeof user === 'string' ? user : null, maker));
    },
    remove: (key) => queue.discard(pattern.exec(key)![1]!),
  };
}

const escape = (text: string): string => text.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&');
