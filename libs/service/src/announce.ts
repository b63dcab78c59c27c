import { renameSync, writeFileSync } from 'node:fs';
import type { Json } from '@toolfleet/contracts';

/**
 * Tells whoever started the process where it listens: `{ service, pid, admin_port, …facts }` as an IPC message and as a
 * file (replaced in one step, so a reader never sees half of it).
 */
export class Announcer {
  readonly #facts: Record<string, Json>;

  constructor(
    service: string,
    private readonly portFile: string | undefined,
  ) {
    this.#facts = { service, pid: process.pid };
  }

  announce(facts: Record<string, Json>): void {
    Object.assign(this.#facts, facts);
    if (this.portFile) {
      const draft = `${this.portFile}.${process.pid}.tmp`;
      writeFileSync(draft, `${JSON.stringify(this.#facts)}\n`);
      renameSync(draft, this.portFile);
    }
    // The parent may go away in between; its end is noticed by 'disconnect', not here.
    if (process.connected)
      process.send?.({ type: 'toolfleet.announce', ...this.#facts }, undefined, {}, () => undefined);
  }
}
