import type { ServiceFault } from '@toolfleet/contracts/fleet';
import type { Clock } from '@toolfleet/resilience';

/** Longest message, in characters. */
const MAX_MESSAGE = 500;
/** Most subjects. Names of registrations, chosen by tenants, can be among them. */
const MAX_SUBJECTS = 200;

/** Subjects by their first words, for a label with few values; what follows can be a name that tenants choose. */
const CLASSES = [
  'policy',
  'configuration file',
  'environment',
  'python modules',
  'source',
  'toolset',
  'plugins',
  'tools of',
  'vendor adapter',
  'allowed endpoints',
  'JWT keys',
  'console',
  'secret',
  'store data',
  'store settings',
] as const;

const classOf = (subject: string): string =>
  CLASSES.find((name) => subject === name || subject.startsWith(`${name} `)) ?? 'other';

/**
 * What is wrong with configuration, policies and stores of a running service, which works on with what it had: a policy that does not
 * parse after a reload, an entry of the configuration file that is ignored, a source that cannot be read, a Redis that lost data. Shown in
 * `/health/ready` and, through the heartbeat, to operators. A fault that keeps the service from working is not one of these: it
 * ends the start, or makes a component unready.
 */
export class ServiceFaults {
  private readonly bySubject = new Map<string, ServiceFault[]>();
  private readonly listeners: (() => void)[] = [];

  constructor(private readonly clock: Clock) {}

  /** Calls the listener after every change. */
  onChange(listener: () => void): void {
    this.listeners.push(listener);
  }

  /** Replaces the faults of a subject; none clears it. A message that stays keeps its time. */
  set(subject: string, messages: readonly string[]): void {
    const before = this.bySubject.get(subject) ?? [];
    if (!this.bySubject.has(subject) && this.bySubject.size >= MAX_SUBJECTS) return;
    const after = messages.map((text): ServiceFault => {
      const message = text.slice(0, MAX_MESSAGE);
      const known = before.find((fault) => fault.message === message);
      return known ?? { subject, message, since: new Date(this.clock.now()).toISOString() };
    });
    if (after.length === before.length && after.every((fault, index) => fault === before[index])) return;
    if (after.length === 0) this.bySubject.delete(subject);
    else this.bySubject.set(subject, after);
    for (const listener of this.listeners) listener();
  }

  /** Number of present faults by class of subject. */
  countByClass(): Map<string, number> {
    const counts = new Map<string, number>();
    for (const { subject } of this.list()) counts.set(classOf(subject), (counts.get(classOf(subject)) ?? 0) + 1);
    return counts;
  }

  /** All present faults, by subject. */
  list(): ServiceFault[] {
    return [...this.bySubject.values()].flat().toSorted((a, b) => (a.subject < b.subject ? -1 : 1));
  }
}
