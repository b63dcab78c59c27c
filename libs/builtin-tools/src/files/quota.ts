import { randomUUID } from 'node:crypto';
import { ToolError } from '@toolfleet/contracts';
import type { Clock } from '@toolfleet/resilience';
import { storeErrors, type Entry, type WorkspaceStore, type WriteMode } from './workspace-store.js';

/** Limits of every workspace. */
export interface WorkspaceLimits {
  /** Bytes of all files together; 100 MB (SHANNON_MAX_WORKSPACE_SIZE_MB). */
  quotaBytes: number;
  /** Files and directories. */
  maxEntries: number;
  /** Bytes of one file that is read or edited. */
  maxFileBytes: number;
  /** Refuse workspaces that do not exist; otherwise the first write creates them. */
  mustExist: boolean;
}

/** The limits unless configured otherwise. */
export const DEFAULT_WORKSPACE_LIMITS: WorkspaceLimits = {
  quotaBytes: 100 * 1024 * 1024,
  maxEntries: 10_000,
  maxFileBytes: 10 * 1024 * 1024,
  mustExist: false,
};

/** An amount of space in a workspace. */
interface Space {
  bytes: number;
  /** Files and directories. */
  entries: number;
}

/**
 * Age at which a hold counts as abandoned by a process that died. Much longer than a write takes, and than the clocks of
 * replicas and storage may differ.
 */
const ABANDONED_AFTER_MS = 120_000;
const MAX_HOLDS = 10_000;

/** The folder of the holds of a workspace: next to it, with a name that no workspace can have. */
function holdsFolder(workspace: string): string {
  const end = workspace.lastIndexOf('/') + 1;
  return `${workspace.slice(0, end)}~holds-${workspace.slice(end)}`;
}

/** A write that needs space. */
interface SpaceRequest {
  workspace: string;
  names: readonly string[];
  bytes: number;
  mode: WriteMode;
}

/**
 * Enforces the limits of workspaces across all replicas that share the store, without a lock. Each write publishes its size as an empty
 * object next to the workspace (a hold), reads all holds, counts the stored files, writes, and removes its hold. Of two concurrent
 * writes, at least one sees the other: its hold or, read later, its file. The drawback is that both may see each other, so that close
 * to the quota both are refused although one would fit.
 */
export class Quota {
  constructor(
    private readonly store: WorkspaceStore,
    private readonly clock: Clock,
    private readonly limits: Pick<WorkspaceLimits, 'quotaBytes' | 'maxEntries'>,
  ) {}

  /** Runs a write if it fits. @throws ToolError `The workspace is full: …` */
  async within<T>(request: SpaceRequest, write: () => Promise<T>): Promise<T> {
    const { workspace, names, bytes } = request;
    const folder = holdsFolder(workspace);
    // A write also creates missing parents.
    const hold = `${bytes}-${names.length}-${randomUUID()}`;
    await this.store.write(folder, [hold], new Uint8Array(0), 'create');
    try {
      const held = await this.heldSpace(folder);
      // Counted only after the hold is published.
      this.check(request, held, await this.listEntries(workspace));
      return await write();
    } finally {
      await this.store.remove(folder, [hold], false).catch(() => undefined); // otherwise it expires
    }
  }

  /** Space held by all writes in progress. */
  private async heldSpace(folder: string): Promise<Space> {
    const sum: Space = { bytes: 0, entries: 0 };
    for (const { names, modifiedAt } of await this.store.list(folder, [], false, MAX_HOLDS)) {
      if (this.clock.now() - modifiedAt > ABANDONED_AFTER_MS) {
        await this.store.remove(folder, names, false).catch(() => undefined); // another replica may have removed it
        continue;
      }
      const [bytes, entries] = (names[0] ?? '').split('-').map(Number);
      sum.bytes += bytes || 0;
      sum.entries += entries || 0;
    }
    return sum;
  }

  private async listEntries(workspace: string): Promise<Entry[]> {
    if (!(await this.store.exists(workspace))) return [];
    return this.store.list(workspace, [], true, this.limits.maxEntries + 1);
  }

  private check({ names, bytes, mode }: SpaceRequest, held: Space, entries: readonly Entry[]): void {
    const path = names.join('/');
    const present = entries.find((entry) => entry.names.join('/') === path);
    if (present?.type === 'directory' && mode !== 'create') throw storeErrors.notAFile(names);
    if (!present && entries.length + held.entries > this.limits.maxEntries)
      throw full(`${this.limits.maxEntries} files and directories`);
    const used = entries.reduce((sum, entry) => sum + entry.size, 0);
    const freed = mode === 'overwrite' ? (present?.size ?? 0) : 0;
    if (used - freed + held.bytes > this.limits.quotaBytes)
      throw full(`${this.limits.quotaBytes} bytes (${used} used, ${bytes} requested)`);
  }
}

function full(what: string): ToolError {
  return new ToolError('TOOL_ERROR', {
    message: `The workspace is full: at most ${what}`,
    details: { reason: 'quota' },
  });
}
