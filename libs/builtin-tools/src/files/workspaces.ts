import { createHash } from 'node:crypto';
import { ToolError } from '@toolfleet/contracts';
import { KeyedMutex, type Clock } from '@toolfleet/resilience';
import { Quota, type WorkspaceLimits, DEFAULT_WORKSPACE_LIMITS } from './quota.js';
import { filePath, workspacePath, type Entry, type WorkspaceStore, type WriteMode } from './workspace-store.js';
import { TENANT, type ToolRun } from '../tool-run.js';

/** Selects the workspace by the context of the call, so that no tool can name another one. */
export class Workspaces {
  /** Serializes the writes to a workspace in this process, so that they do not refuse each other (see Quota). */
  private readonly mutex = new KeyedMutex();
  private readonly quota: Quota;

  constructor(
    private readonly store: WorkspaceStore,
    clock: Clock,
    private readonly limits: WorkspaceLimits = DEFAULT_WORKSPACE_LIMITS,
  ) {
    this.quota = new Quota(store, clock, limits);
  }

  /**
   * The workspace of a call: the project's, shared by the tenant, otherwise the user's session's. The key
   * includes the user, because callers choose session ids, and two users of a tenant may use the same one.
   * @throws ToolError `project_id is required for file operations`
   */
  of({ context, [TENANT]: tenant }: Pick<ToolRun, 'context' | typeof TENANT>): Workspace {
    const { user_id: user, project_id: project, session_id: session, create_project: create } = context;
    const id = project ?? session;
    if (typeof id !== 'string' || id === '')
      throw new ToolError('TOOL_ERROR', {
        message:
          'project_id is required for file operations: send session_id with the call, or name a project with the header X-Project-Id or a ' +
          'credential that has one',
      });
    const isProject = typeof project === 'string';
    const folder = isProject
      ? `p-${safeName(id)}`
      : `u-${safeName(typeof user === 'string' ? user : '')}/s-${safeName(id)}`;
    const key = `${safeName(tenant)}/${folder}`;
    const deps = { store: this.store, quota: this.quota, limits: this.limits };
    const existence = isProject ? { project: id, rule: this.existenceRule(create) } : undefined;
    return new Workspace(key, existence, deps, (work) => this.mutex.run(key, work));
  }

  /**
   * Removes all workspaces of a tenant, or one user's sessions', or counts their files. Projects belong to the tenant.
   * @param isOver ends the work early; it may be repeated
   */
  async purge(
    { tenantId, userId }: { tenantId: string; userId?: string },
    dryRun: boolean,
    isOver: () => boolean,
  ): Promise<{ files: number; more: boolean }> {
    const folder = userId === undefined ? safeName(tenantId) : `${safeName(tenantId)}/u-${safeName(userId)}`;
    if (dryRun) return { files: await this.store.countFiles(folder), more: false };
    return this.store.removeFolder(folder, isOver);
  }

  private existenceRule(create: unknown): ExistenceRule {
    if (this.limits.mustExist || create === false) return 'by_workspace';
    return create === true ? 'declared' : 'by_write';
  }
}

/**
 * When a project exists. `declared`: always, initially empty. `by_workspace`: when it has a workspace. `by_write`: like
 * `by_workspace`, but writing creates it; calls of gateways older than 0.2.0 do not send the field.
 */
type ExistenceRule = 'declared' | 'by_workspace' | 'by_write';

/** A workspace. Checks paths and enforces the quota. */
class Workspace {
  constructor(
    private readonly key: string,
    /** Undefined for a session: its workspace always exists, initially empty. */
    private readonly existence: { project: string; rule: ExistenceRule } | undefined,
    private readonly deps: { store: WorkspaceStore; quota: Quota; limits: WorkspaceLimits },
    private readonly inTurn: <T>(work: () => Promise<T>) => Promise<T>,
  ) {}

  /** The entry at a path; undefined if there is none. */
  async stat(path: string): Promise<Entry | undefined> {
    const names = workspacePath(path);
    await this.assertNotUnknown();
    return this.deps.store.stat(this.key, names);
  }

  /** @throws ToolError if the file does not exist or exceeds `maxFileBytes` */
  async read(path: string): Promise<Buffer> {
    const names = filePath(path);
    await this.assertExists();
    return this.deps.store.read(this.key, names, this.deps.limits.maxFileBytes);
  }

  /** At most `limit` entries of a directory. @throws ToolError if it does not exist */
  async list(path: string, recursive: boolean, limit: number): Promise<Entry[]> {
    const names = workspacePath(path);
    await this.assertExists();
    if (names.length === 0 && !(await this.deps.store.exists(this.key))) return [];
    return this.deps.store.list(this.key, names, recursive, limit);
  }

  /** Writes a file within the quota. */
  async write(path: string, bytes: Uint8Array, mode: WriteMode): Promise<void> {
    const names = filePath(path);
    await this.assertNotUnknown();
    await this.inTurn(() =>
      this.deps.quota.within({ workspace: this.key, names, bytes: bytes.length, mode }, () =>
        this.deps.store.write(this.key, names, bytes, mode),
      ),
    );
  }

  /** Reads, changes and writes a file without another write in between, of this or another process. */
  async change(path: string, rewrite: (before: Buffer) => Uint8Array): Promise<void> {
    const names = filePath(path);
    await this.assertExists();
    const { store, quota, limits } = this.deps;
    await this.inTurn(() =>
      store.change(this.key, names, limits.maxFileBytes, (before, replace) => {
        const after = rewrite(before);
        const request = { workspace: this.key, names, bytes: after.length, mode: 'overwrite' as const };
        return quota.within(request, () => replace(after));
      }),
    );
  }

  /** Creates a directory with missing parents; does nothing if it exists. */
  async makeDirectory(path: string): Promise<void> {
    const names = filePath(path);
    await this.assertNotUnknown();
    await this.inTurn(() =>
      this.deps.quota.within({ workspace: this.key, names, bytes: 0, mode: 'create' }, () =>
        this.deps.store.makeDirectory(this.key, names),
      ),
    );
  }

  /** Removes a file or directory. Returns the number of removed entries. */
  async remove(path: string, recursive: boolean): Promise<number> {
    const names = filePath(path);
    await this.assertExists();
    return this.inTurn(() => this.deps.store.remove(this.key, names, recursive));
  }

  private async assertExists(): Promise<void> {
    if (!this.existence || this.existence.rule === 'declared' || (await this.deps.store.exists(this.key))) return;
    throw new ToolError('TOOL_ERROR', { message: `Project not found: ${this.existence.project}` });
  }

  /** @throws ToolError for a project that this call can neither find nor create */
  private async assertNotUnknown(): Promise<void> {
    if (this.existence?.rule === 'by_workspace') await this.assertExists();
  }
}

/** An id as a file name. Two ids never share a name. */
function safeName(id: string): string {
  return /^[A-Za-z0-9_-]{1,64}$/.test(id) ? id : `~${createHash('sha256').update(id).digest('hex').slice(0, 40)}`;
}
