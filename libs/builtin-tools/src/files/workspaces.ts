import { createHash } from 'node:crypto';
import { ToolError } from '@toolfleet/contracts';
import type { ExecContext } from '@toolfleet/contracts/execution';
import { Turns, type Clock } from '@toolfleet/resilience';
import { Holds, Quota } from './quota.js';
import { filePath, workspacePath, type Entry, type WorkspaceStore, type WriteMode } from './workspace-store.js';

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
  /** Writes to one workspace take turns in this process, so that they do not refuse each other (see Holds). */
  private readonly turns = new Turns();
  private readonly quota: Quota;

  constructor(
    private readonly store: WorkspaceStore,
    clock: Clock,
    private readonly limits: WorkspaceLimits = DEFAULT_WORKSPACE_LIMITS,
  ) {
    this.quota = new Quota(store, new Holds(store, clock), limits);
  }

  /**
   * The workspace of a call: the project's, which the tenant shares, else that of the user's session. Session ids are chosen by
   * callers, so two users of a tenant may use the same one.
   * @throws ToolError `project_id is required for file operations`
   */
  of(context: ExecContext): Workspace {
    const { tenant_id: tenant, user_id: user, project_id: project, session_id: session } = context;
    const id = project ?? session;
    if (typeof id !== 'string' || id === '')
      throw new ToolError('TOOL_ERROR', {
        message: 'project_id is required for file operations',
        details: { hint: 'Send session_id beside the arguments; internal callers may send project_id' },
      });
    const isProject = typeof project === 'string';
    const place = isProject
      ? `p-${safeName(id)}`
      : `u-${safeName(typeof user === 'string' ? user : '')}/s-${safeName(id)}`;
    const key = `${safeName(tenant)}/${place}`;
    const parts = { store: this.store, quota: this.quota, limits: this.limits };
    return new Workspace(key, isProject ? id : undefined, parts, (work) => this.turns.take(key, work));
  }
}

/** One workspace: paths checked, quota kept. */
export class Workspace {
  constructor(
    private readonly key: string,
    /** Of a project; undefined for a session, whose workspace is there from the start, empty. */
    private readonly project: string | undefined,
    private readonly parts: { store: WorkspaceStore; quota: Quota; limits: WorkspaceLimits },
    private readonly inTurn: <T>(work: () => Promise<T>) => Promise<T>,
  ) {}

  async stat(path: string): Promise<Entry | undefined> {
    return this.parts.store.stat(this.key, workspacePath(path));
  }

  async read(path: string): Promise<Buffer> {
    const names = filePath(path);
    await this.mustBeThere();
    return this.parts.store.read(this.key, names, this.parts.limits.maxFileBytes);
  }

  async list(path: string, recursive: boolean, limit: number): Promise<Entry[]> {
    const names = workspacePath(path);
    await this.mustBeThere();
    if (names.length === 0 && !(await this.parts.store.exists(this.key))) return [];
    return this.parts.store.list(this.key, names, recursive, limit);
  }

  async write(path: string, bytes: Uint8Array, mode: WriteMode): Promise<void> {
    const names = filePath(path);
    await this.mayBeMade();
    await this.inTurn(() =>
      this.parts.quota.within({ workspace: this.key, names, bytes: bytes.length, mode }, () =>
        this.parts.store.write(this.key, names, bytes, mode),
      ),
    );
  }

  /** Reads, changes and writes a file with no other write in between, of this process or another. */
  async change(path: string, rewrite: (before: Buffer) => Uint8Array): Promise<void> {
    const names = filePath(path);
    await this.mustBeThere();
    const { store, quota, limits } = this.parts;
    await this.inTurn(() =>
      store.change(this.key, names, limits.maxFileBytes, (before, replace) => {
        const after = rewrite(before);
        const request = { workspace: this.key, names, bytes: after.length, mode: 'overwrite' as const };
        return quota.within(request, () => replace(after));
      }),
    );
  }

  async makeDirectory(path: string): Promise<void> {
    const names = filePath(path);
    await this.mayBeMade();
    await this.inTurn(() =>
      this.parts.quota.within({ workspace: this.key, names, bytes: 0, mode: 'create' }, () =>
        this.parts.store.makeDirectory(this.key, names),
      ),
    );
  }

  async remove(path: string, recursive: boolean): Promise<number> {
    const names = filePath(path);
    await this.mustBeThere();
    return this.inTurn(() => this.parts.store.remove(this.key, names, recursive));
  }

  private async mustBeThere(): Promise<void> {
    if (this.project === undefined || (await this.parts.store.exists(this.key))) return;
    throw new ToolError('TOOL_ERROR', { message: `Project not found: ${this.project}` });
  }

  private async mayBeMade(): Promise<void> {
    if (this.parts.limits.mustExist) await this.mustBeThere();
  }
}

/** An id as one name of a path; two ids never share a name. */
function safeName(id: string): string {
  return /^[A-Za-z0-9_-]{1,64}$/.test(id) ? id : `~${createHash('sha256').update(id).digest('hex').slice(0, 40)}`;
}
