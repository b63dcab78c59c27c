import { Cluster, type Redis } from 'ioredis';

/**
 * Tells whether Redis may have lost its last writes. A primary takes a new replication id when it starts and when a failover
 * promotes it: the two moments at which writes it had acknowledged can be missing (the unsynced tail of the append-only
 * file, or what had not reached the replica).
 */
export class StoreGeneration {
  constructor(private readonly redis: Redis) {}

  /** The generation now: replication ids of all primaries. Rejects while one of them cannot be reached. */
  async read(): Promise<string> {
    const made: unknown = this.redis;
    const nodes = made instanceof Cluster ? made.nodes('master') : [this.redis];
    const ids = await Promise.all(nodes.map(async (node) => replicationId(await node.info('replication'))));
    return ids.toSorted().join(' ');
  }
}

function replicationId(info: string): string {
  const id = /^master_replid:(\S+)/m.exec(info)?.[1];
  if (id === undefined) throw new Error('INFO replication has no master_replid');
  return id;
}
