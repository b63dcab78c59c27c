import { randomUUID } from 'node:crypto';
import type { JsonObject, Principal } from '@toolfleet/contracts';
import type { Clock } from '@toolfleet/resilience';
import { TaskStore, type Task } from '../task-store.js';

/** Work of a fixture task: may ask its client, ends with a result or throws. */
export type TaskWork = (task: {
  signal: AbortSignal;
  ask: (requests: JsonObject) => Promise<JsonObject>;
}) => Promise<JsonObject>;

interface Kept {
  task: Task;
  tenantId: string;
  stop: AbortController;
  /** Answers so far, and who waits for the rest. */
  answers: JsonObject;
  answered?: (answers: JsonObject) => void;
}

/** Tasks of the fixtures, in memory: they ask their client while they run, which no tool behind the queue does. */
export class MemoryTasks extends TaskStore {
  override readonly ttlMs = 600_000;
  private readonly kept = new Map<string, Kept>();

  constructor(private readonly clock: Clock) {
    super();
  }

  override start(): Promise<Task> {
    return Promise.reject(new Error('fixtures begin their own tasks'));
  }

  /** Begins a task. */
  begin(tenantId: string, tool: string, work: TaskWork): Task {
    const now = this.now();
    const task: Task = { taskId: randomUUID(), tool, status: 'working', createdAt: now, lastUpdatedAt: now };
    const kept: Kept = { task, tenantId, stop: new AbortController(), answers: {} };
    this.kept.set(task.taskId, kept);
    work({ signal: kept.stop.signal, ask: (requests) => this.ask(kept, requests) }).then(
      (result) => this.end(kept, { status: 'completed', result }),
      (error: unknown) => {
        const message = error instanceof Error ? error.message : String(error);
        this.end(kept, { status: 'failed', error: { code: -32_603, message } });
      },
    );
    return { ...task };
  }

  override async get(principal: Principal, taskId: string): Promise<Task | undefined> {
    const kept = this.find(principal, taskId);
    return kept && { ...kept.task };
  }

  override async cancel(principal: Principal, taskId: string): Promise<boolean> {
    const kept = this.find(principal, taskId);
    if (!kept) return false;
    this.end(kept, { status: 'cancelled' });
    kept.stop.abort();
    return true;
  }

  override async update(principal: Principal, taskId: string, responses: JsonObject): Promise<boolean> {
    const kept = this.find(principal, taskId);
    if (!kept) return false;
    const open = kept.task.inputRequests;
    if (kept.task.status !== 'input_required' || !open) return true;
    for (const [name, response] of Object.entries(responses)) {
      if (!(name in open)) continue;
      kept.answers[name] = response;
      delete open[name];
    }
    if (Object.keys(open).length === 0) kept.answered?.(kept.answers);
    return true;
  }

  private ask(kept: Kept, requests: JsonObject): Promise<JsonObject> {
    this.set(kept, { status: 'input_required', inputRequests: { ...requests } });
    return new Promise((resolve) => {
      kept.answered = (answers) => {
        this.set(kept, { status: 'working' });
        resolve(answers);
      };
    });
  }

  private end(kept: Kept, outcome: Partial<Task>): void {
    if (kept.task.status === 'working' || kept.task.status === 'input_required') this.set(kept, outcome);
  }

  private set(kept: Kept, change: Partial<Task>): void {
    kept.task = { ...kept.task, ...change, lastUpdatedAt: this.now() };
  }

  private find(principal: Principal, taskId: string): Kept | undefined {
    const kept = this.kept.get(taskId);
    return kept?.tenantId === principal.tenantId ? kept : undefined;
  }

  private now(): string {
    return new Date(this.clock.now()).toISOString();
  }
}
