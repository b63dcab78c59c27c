import { randomUUID } from 'node:crypto';
import { ToolError } from '@toolfleet/contracts';
import type { Clock } from '@toolfleet/resilience';
import { fault, type Entry, type WorkspaceStore, type WriteMode } from './workspace-store.js';
import type { WorkspaceLimits } from './workspaces.js';

/** Room in a workspace. */
export interface Room {
  bytes: number;
  /** Files and directories. */
  entries: number;
}

/** Room a write has asked for and not filled yet. */
export interface Hold {
  /** What all writes in work hold together, this one included. */
  inAll: Room;
  release(): Promise<void>;
}

/**
 * A hold of a process that died is forgotten after this long: far longer than a write may take, and than the clocks of
 * replicas and storage may differ.
 */
const FORGOTTEN_AFTER_MS = 120_000;
const MOST_HOLDS = 10_000;

/**
 * Lets replicas that share a store keep one quota without a lock. Each write first shows what it will take as an empty object
 * beside the workspace, then reads all such holds, then counts what is there, then writes, then takes its hold away. Of two
 * writes at the same moment at least one sees the other: its hold or, read later, its file. The price: both may see each
 * other, so that close to the quota both are refused where one had room.
 */
export class Holds {
  constructor(
    private readonly store: WorkspaceStore,
    private readonly clock: Clock,
  ) {}

  /** Shows a hold; count what is there only after this has resolved. */
  async take(workspace: string, { bytes, entries }: Room): Promise<Hold> {
    const shelf = shelfOf(workspace);
    const name = `${bytes}-${entries}-${randomUUID()}`;
    await this.store.write(shelf, [name], new Uint8Array(0), 'create');
    const release = async () => {
      await this.store.remove(shelf, [name], false).catch(() => undefined); // else it is forgotten in time
    };
    try {
      return { inAll: await this.inAll(shelf), release };
    } catch (error) {
      await release();
      throw error;
    }
  }

  private async inAll(shelf: string): Promise<Room> {
    const sum: Room = { bytes: 0, entries: 0 };
    for (const { names, modifiedAt } of await this.store.list(shelf, [], false, MOST_HOLDS)) {
      if (this.clock.now() - modifiedAt > FORGOTTEN_AFTER_MS) {
        await this.store.remove(shelf, names, false).catch(() => undefined); // another replica may be faster
        continue;
      }
      const [bytes, entries] = (names[0] ?? '').split('-').map(Number);
      sum.bytes += bytes || 0;
      sum.entries += entries || 0;
    }
    return sum;
  }
}

/** Where the holds of a workspace lie: beside it, under a name no workspace can have. */
function shelfOf(workspace: string): string {
  const end = workspace.lastIndexOf('/') + 1;
  return `${workspace.slice(0, end)}~holds-${workspace.slice(end)}`;
}

/** A write that wants room. */
export interface RoomRequest {
  workspace: string;
  names: readonly string[];
  bytes: number;
  mode: WriteMode;
}

/** Keeps workspaces within their limits, over all replicas that share the store. */
export class Quota {
  constructor(
    private readonly store: WorkspaceStore,
    private readonly holds: Holds,
    private readonly limits: Pick<WorkspaceLimits, 'quotaBytes' | 'maxEntries'>,
  ) {}

  /** Runs a write that there is room for. @throws ToolError `The workspace is full: …` */
  async within<T>(request: RoomRequest, write: () => Promise<T>): Promise<T> {
    const { workspace, names, bytes } = request;
    // A path brings its missing parents along.
    const hold = await this.holds.take(workspace, { bytes, entries: names.length });
    try {
      this.check(request, hold.inAll, await this.entriesOf(workspace));
      return await write();
    } finally {
      await hold.release();
    }
  }

  private async entriesOf(workspace: string): Promise<Entry[]> {
    if (!(await this.store.exists(workspace))) return [];
    return this.store.list(workspace, [], true, this.limits.maxEntries + 1);
  }

  private check({ names, bytes, mode }: RoomRequest, held: Room, entries: readonly Entry[]): void {
    const path = names.join('/');
    const present = entries.find((entry) => entry.names.join('/') === path);
    if (present?.type === 'directory' && mode !== 'create') throw fault.notAFile(names);
    if (!present && entries.length + held.entries > this.limits.maxEntries)
      throw full(`${this.limits.maxEntries} files and directories`);
    const used = entries.reduce((sum, entry) => sum + entry.size, 0);
    const freed = mode === 'overwrite' ? (present?.size ?? 0) : 0;
    if (used - freed + held.bytes > this.limits.quotaBytes)
      throw full(`${this.limits.quotaBytes} bytes (${used} used, ${bytes} asked)`);
  }
}

function full(what: string): ToolError {
  return new ToolError('TOOL_ERROR', {
    message: `The workspace is full: at most ${what}`,
    details: { reason: 'quota' },
  });
}
