import { randomUUID } from 'node:crypto';
import {
  invalidRequest,
  OPERATOR_TENANT,
  TENANT_ID_PATTERN,
  ToolError,
  type Milliseconds,
  type Principal,
} from '@toolfleet/contracts';
import { isPlainId } from '@toolfleet/contracts/text';
import { Rounds, type Clock } from '@toolfleet/resilience';
import { CHAINED, type Logger } from '@toolfleet/telemetry';
import { hasRight, requireRight } from '@toolfleet/access';
import type { PurgeRecord, PurgeScope, RedisPurgeStore } from './redis-purge-store.js';

/** The request of a caller. */
interface PurgeRequest extends PurgeScope {
  /** Only counts. */
  dryRun: boolean;
  /** Must repeat what `confirmation` gives, unless it is a dry run. */
  confirm?: string;
}

/** Dependencies of a step. */
export interface PurgeTask extends PurgeScope {
  dryRun: boolean;
  pseudonym: string;
  keyIds: readonly string[];
  /** Counts removed rows, or rows of a dry run. Await it after each batch: a purge that is killed loses the count of one batch only. */
  count(kind: string, amount: number): Promise<void>;
}

/** Removes the data of one store, or counts them. May be interrupted anywhere and repeated. */
export interface PurgeStep {
  name: string;
  run(task: PurgeTask): Promise<void>;
}

interface PurgesDeps {
  store: RedisPurgeStore;
  steps: readonly PurgeStep[];
  /** Ids of the API keys of a scope. */
  keyIds(scope: PurgeScope): Promise<string[]>;
  clock: Clock;
  logger: Pick<Logger, 'info' | 'warn'>;
  /** Receives the age of the oldest purge that has not finished, in ms; 0 without one. */
  onAge?: (ageMs: Milliseconds) => void;
  /** Interval in which open purges are looked for, and leases renewed. */
  pollMs?: Milliseconds;
}

/** A quarter of the life of a lease. */
const POLL_MS = 5_000;

/**
 * Purges: the steps run in order on one gateway, in the background. A purge that loses its gateway, or fails at a step, is continued by
 * any gateway from the first step that is not finished. At the end all steps count again, so that the record shows what calls
 * wrote meanwhile. Requests and ends are in the audit log.
 */
export class Purges {
  readonly name = 'purges';
  readonly #holder = randomUUID();
  readonly #running = new Map<string, Promise<void>>();
  readonly #rounds: Rounds;
  #stopped = false;

  constructor(private readonly deps: PurgesDeps) {
    // While Redis is down, the next round asks again.
    this.#rounds = this.#every(() => this.#resume());
  }

  /** Repeats work at the interval at which purges are looked for. */
  #every(work: () => Promise<unknown>): Rounds {
    const { clock, pollMs: everyMs = POLL_MS } = this.deps;
    return new Rounds({ clock, everyMs, work });
  }

  async start(): Promise<void> {
    this.#rounds.start();
  }

  /** Stops after the current batch of work; another gateway continues. */
  async stop(): Promise<void> {
    this.#stopped = true;
    await this.#rounds.stop();
    await Promise.all(this.#running.values());
  }

  /**
   * Starts a purge and returns its record.
   * @throws ToolError REQUEST_INVALID without the confirmation, PERMISSION_DENIED
   */
  async request(caller: Principal, request: PurgeRequest): Promise<PurgeRecord> {
    checkRights(caller, request);
    checkScope(request);
    const wanted = confirmation(request);
    if (!request.dryRun && request.confirm !== wanted) {
      throw invalidRequest(
        `A purge cannot be undone; send "confirm": "${wanted}", or "dry_run": true to count what it would remove`,
        'confirm',
      );
    }
    const id = randomUUID();
    const record: PurgeRecord = {
      id,
      tenantId: request.tenantId,
      userId: request.userId,
      dryRun: request.dryRun,
      pseudonym: `purged-${id.slice(0, 18)}`,
      requestedBy: caller.userId,
      requestedAt: this.deps.clock.now(),
      state: 'running',
      done: [],
      counts: {},
      remaining: {},
      keyIds: [],
    };
    // The audit log first: a purge that starts is in it.
    const { tenantId: tenant_id, userId: user_id, keyId: key_id } = caller;
    this.deps.logger.info({ audit: CHAINED, tenant_id, user_id, key_id, ...shown(record) }, 'purge requested');
    await this.deps.store.create(record);
    this.#continue(id);
    return record;
  }

  /** @throws ToolError NOT_FOUND, also for purges that the caller could not have requested */
  async get(caller: Principal, id: string): Promise<PurgeRecord> {
    const record = await this.deps.store.get(id);
    if (record && hasRight(caller, neededRight(record), record.tenantId)) return record;
    throw new ToolError('NOT_FOUND', { message: `No purge '${id}'` });
  }

  /** Continues the purges that have not ended, and measures their age. */
  async #resume(): Promise<void> {
    const { clock, store, onAge } = this.deps;
    const ids = await store.open();
    for (const id of ids) this.#continue(id);
    const records = await Promise.all(ids.map((id) => store.get(id)));
    const ages = records.flatMap((record) =>
      record?.state === 'running' ? Math.max(0, clock.now() - record.requestedAt) : [],
    );
    onAge?.(Math.max(0, ...ages));
  }

  #continue(id: string): void {
    if (this.#stopped || this.#running.has(id)) return;
    const run = this.#run(id)
      .catch((error: unknown) => this.deps.logger.warn({ purge: id, error }, 'a purge stopped and will be continued'))
      .finally(() => this.#running.delete(id));
    this.#running.set(id, run);
  }

  async #run(id: string): Promise<void> {
    const { store } = this.deps;
    if (!(await store.lease(id, this.#holder))) return;
    const renewal = this.#every(() => store.lease(id, this.#holder));
    renewal.start();
    try {
      await this.#work(id);
    } catch (error) {
      if (!(error instanceof Stopped)) await store.fail(id, reasonFor(error));
      if (!(error instanceof Stopped)) throw error;
    } finally {
      await renewal.stop();
      await store.release(id, this.#holder).catch(() => undefined);
    }
  }

  async #work(id: string): Promise<void> {
    const { store, steps, clock, logger } = this.deps;
    const record = await store.get(id);
    if (record?.state !== 'running') return;
    let { keyIds } = record;
    if (record.done.length === 0) {
      // An interrupted attempt's are deleted already.
      keyIds = [...new Set([...keyIds, ...(await this.deps.keyIds(record))])];
      await store.setKeyIds(id, keyIds);
    }
    for (const step of steps) {
      if (record.done.includes(step.name)) continue;
      await this.#step(step, { ...record, keyIds }, 'counts');
      await store.finishStep(id, step.name);
    }
    if (!record.dryRun) {
      await store.clearRemaining(id);
      for (const step of steps) await this.#step(step, { ...record, keyIds, dryRun: true }, 'remaining');
    }
    await store.finish(id, clock.now());
    const ended = await store.get(id);
    if (ended) {
      const { counts, remaining } = ended;
      logger.info({ audit: CHAINED, ...shown(ended), counts, remaining }, 'purge finished');
    }
  }

  async #step(step: PurgeStep, record: PurgeRecord, field: 'counts' | 'remaining'): Promise<void> {
    const count = async (kind: string, amount: number): Promise<void> => {
      if (amount > 0) await this.deps.store.count(record.id, field, kind, amount);
      if (this.#stopped) throw new Stopped();
    };
    try {
      await step.run({ ...record, count });
    } catch (error) {
      if (error instanceof Stopped) throw error;
      throw new StepFailed(step.name, error);
    }
  }
}

/** The gateway stops; another one continues. */
class Stopped extends Error {}

class StepFailed extends Error {
  constructor(step: string, cause: unknown) {
    super(`${step}: ${cause instanceof Error ? cause.message : String(cause)}`, { cause });
  }
}

function reasonFor(error: unknown): string {
  return (error instanceof Error ? error.message : String(error)).slice(0, 500);
}

/** Confirmation of a purge: `acme`, or `acme/ann` for a user. */
function confirmation({ tenantId, userId }: PurgeScope): string {
  return userId === undefined ? tenantId : `${tenantId}/${userId}`;
}

/** Operators purge tenants; administrators the users of their own tenant. */
const neededRight = ({ userId }: PurgeScope) => (userId === undefined ? 'operate_fleet' : 'purge_users');

function checkRights(caller: Principal, scope: PurgeScope): void {
  requireRight(caller, neededRight(scope), 'This purge', scope.tenantId);
  if (scope.userId === undefined && scope.tenantId === OPERATOR_TENANT)
    throw invalidRequest('The tenant of the operators cannot be purged; purge its users', 'tenant_id');
}

/** Ids are compared, never matched: `*` would be the name of a tenant or user that cannot exist. */
function checkScope({ tenantId, userId }: PurgeScope): void {
  const fields = [
    ...(TENANT_ID_PATTERN.test(tenantId) ? [] : ['tenant_id']),
    ...(userId === undefined || (isPlainId(userId) && /^(?!\s*$)[^*]*$/.test(userId)) ? [] : ['user_id']),
  ];
  if (fields.length === 0) return;
  throw invalidRequest(`${fields.join(' and ')} must be one id, without wildcards`, ...fields);
}

function shown({ id, tenantId, userId, dryRun, pseudonym }: PurgeRecord) {
  return { purge: id, purged_tenant: tenantId, purged_user: userId, dry_run: dryRun, pseudonym };
}
