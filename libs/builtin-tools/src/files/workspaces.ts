import { createHash } from 'node:crypto';
import { ToolError, type ExecContext } from '@toolfleet/contracts';
import { filePath, workspacePath } from './workspace-path.js';
import { fault, type Entry, type WorkspaceStore, type WriteMode } from './workspace-store.js';

/** Caps of every workspace. */
export interface WorkspaceLimits {
  /** Bytes of all files together; 100 MB (SHANNON_MAX_WORKSPACE_SIZE_MB). */
  quotaBytes: number;
  /** Files and directories. */
  maxEntries: number;
  /** Bytes of one file that is read or edited. */
  maxFileBytes: number;
  /** Refuse workspaces nobody made; else the first write makes them. */
  mustExist: boolean;
}

export const DEFAULT_WORKSPACE_LIMITS: WorkspaceLimits = {
  quotaBytes: 100 * 1024 * 1024,
  maxEntries: 10_000,
  maxFileBytes: 10 * 1024 * 1024,
  mustExist: false,
};

/** The workspaces of a store, by the call's context: no tool can name another one. */
export class Workspaces {
  private readonly turns = new Map<string, Promise<unknown>>();

  constructor(
    private readonly store: WorkspaceStore,
    private readonly limits: WorkspaceLimits = DEFAULT_WORKSPACE_LIMITS,
  ) {}

  /**
   * The workspace of a call: the project's, else the session's (I14, I15).
   * @throws ToolError `project_id is required for file operations`
   */
  of(context: ExecContext): Workspace {
    const { tenant_id: tenant, project_id: project, session_id: session } = context;
    const id = project ?? session;
    if (typeof id !== 'string' || id === '')
      throw new ToolError('TOOL_ERROR', { message: 'project_id is required for file operations' });
    const isProject = typeof project === 'string';
    const key = `${safeName(tenant)}/${isProject ? 'p' : 's'}-${safeName(id)}`;
    return new Workspace(key, isProject ? id : undefined, this.store, this.limits, (work) => this.inTurn(key, work));
  }

  /** Writes to one workspace take turns in this process, so that two of them cannot both pass the quota. */
  private async inTurn<T>(key: string, work: () => Promise<T>): Promise<T> {
    const before = this.turns.get(key) ?? Promise.resolve();
    const mine = before.then(work, work);
    const settled = mine.catch(() => {});
    this.turns.set(key, settled);
    try {
      return await mine;
    } finally {
      if (this.turns.get(key) === settled) this.turns.delete(key);
    }
  }
}

/** One workspace: paths checked, quota kept. */
export class Workspace {
  constructor(
    private readonly key: string,
    /** Of a project; undefined for a session, whose workspace is there from the start, empty. */
    private readonly project: string | undefined,
    private readonly store: WorkspaceStore,
    private readonly limits: WorkspaceLimits,
    private readonly inTurn: <T>(work: () => Promise<T>) => Promise<T>,
  ) {}

  async stat(path: string): Promise<Entry | undefined> {
    return this.store.stat(this.key, workspacePath(path));
  }

  async read(path: string): Promise<Buffer> {
    const names = filePath(path);
    await this.mustBeThere();
    return this.store.read(this.key, names, this.limits.maxFileBytes);
  }

  async list(path: string, recursive: boolean, limit: number): Promise<Entry[]> {
    const names = workspacePath(path);
    await this.mustBeThere();
    if (names.length === 0 && !(await this.store.exists(this.key))) return [];
    return this.store.list(this.key, names, recursive, limit);
  }

  async write(path: string, bytes: Uint8Array, mode: WriteMode): Promise<void> {
    const names = filePath(path);
    await this.mayBeMade();
    await this.inTurn(async () => {
      await this.checkQuota(names, bytes.length, mode);
      await this.store.write(this.key, names, bytes, mode);
    });
  }

  /** Reads, changes and writes a file with no other write in between. */
  async change(path: string, rewrite: (before: Buffer) => Uint8Array): Promise<void> {
    const names = filePath(path);
    await this.mustBeThere();
    await this.inTurn(async () => {
      const after = rewrite(await this.store.read(this.key, names, this.limits.maxFileBytes));
      await this.checkQuota(names, after.length, 'overwrite');
      await this.store.write(this.key, names, after, 'overwrite');
    });
  }

  async makeDirectory(path: string): Promise<void> {
    const names = filePath(path);
    await this.mayBeMade();
    await this.inTurn(async () => {
      await this.checkQuota(names, 0, 'create');
      await this.store.makeDirectory(this.key, names);
    });
  }

  async remove(path: string, recursive: boolean): Promise<number> {
    const names = filePath(path);
    await this.mustBeThere();
    return this.inTurn(() => this.store.remove(this.key, names, recursive));
  }

  private async mustBeThere(): Promise<void> {
    if (this.project === undefined || (await this.store.exists(this.key))) return;
    throw new ToolError('TOOL_ERROR', { message: `Project not found: ${this.project}` });
  }

  private async mayBeMade(): Promise<void> {
    if (this.limits.mustExist) await this.mustBeThere();
  }

  private async checkQuota(names: readonly string[], bytes: number, mode: WriteMode): Promise<void> {
    const entries = (await this.store.exists(this.key))
      ? await this.store.list(this.key, [], true, this.limits.maxEntries + 1)
      : [];
    const path = names.join('/');
    const present = entries.find((entry) => entry.names.join('/') === path);
    if (present?.type === 'directory' && mode !== 'create') throw fault.notAFile(names);
    // A path brings its missing parents along.
    if (!present && entries.length + names.length > this.limits.maxEntries)
      throw this.full(`${this.limits.maxEntries} files and directories`);
    const used = entries.reduce((sum, entry) => sum + entry.size, 0);
    const freed = mode === 'overwrite' ? (present?.size ?? 0) : 0;
    if (used - freed + bytes > this.limits.quotaBytes)
      throw this.full(`${this.limits.quotaBytes} bytes (${used} used, ${bytes} asked)`);
  }

  private full(what: string): ToolError {
    return new ToolError('TOOL_ERROR', {
      message: `The workspace is full: at most ${what}`,
      details: { reason: 'quota' },
    });
  }
}

/** An id as one name of a path; two ids never share a name. */
function safeName(id: string): string {
  return /^[A-Za-z0-9_-]{1,64}$/.test(id) ? id : `~${createHash('sha256').update(id).digest('hex').slice(0, 40)}`;
}
