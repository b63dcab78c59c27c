import { ToolError } from '@toolfleet/contracts';
import { Holds, type Room } from './holds.js';
import { fault, type Entry, type WorkspaceStore, type WriteMode } from './workspace-store.js';
import type { WorkspaceLimits } from './workspaces.js';

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
