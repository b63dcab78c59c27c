import { appendFile, readFile } from 'node:fs/promises';
import { ToolError } from '@toolfleet/contracts';
import { adviseRefusals, endpointOrigin } from '@toolfleet/egress/rules';
import { Rounds } from '@toolfleet/resilience';
import type { EGRESS_KEYS, SettingsOf } from './config/define-config.js';
import type { LifecycleComponent, ServiceHost } from './lifecycle.js';

adviseRefusals(
  'to allow this origin, the operator adds it to EGRESS_ALLOWED_ENDPOINTS or, without a restart, to the file of EGRESS_ENDPOINTS_FILE (npm start: .toolfleet/allowed-endpoints)',
);

/** How long a change of the file may take to count. Polling one small file is cheap, and watchers miss swapped symlinks. */
const READ_EVERY_MS = 1_000;

/**
 * The origins that skip the egress guard: in `EGRESS_ALLOWED_ENDPOINTS`, and the lines of the file
 * `EGRESS_ENDPOINTS_FILE`, read while the service runs, so that a developer can allow a server without a restart.
 */
export class AllowedEndpoints implements LifecycleComponent {
  readonly name = 'allowed endpoints';
  private readonly fixed: ReadonlySet<string>;
  private fromFile: ReadonlySet<string> = new Set();
  private text = '';
  /** Why the file is ignored; empty while it is valid. */
  private refusal = '';
  private rounds: Rounds | undefined;

  constructor(
    private readonly egress: Pick<
      SettingsOf<typeof EGRESS_KEYS>,
      'EGRESS_ALLOWED_ENDPOINTS' | 'EGRESS_ENDPOINTS_FILE'
    > & { TOOLFLEET_LOCAL?: boolean },
    private readonly host: Pick<ServiceHost, 'clock' | 'logger' | 'faults'>,
  ) {
    this.fixed = new Set(egress.EGRESS_ALLOWED_ENDPOINTS.map(endpointOrigin));
  }

  /** @param origin in the canonical form of {@link endpointOrigin} */
  has(origin: string): boolean {
    return this.fixed.has(origin) || this.fromFile.has(origin);
  }

  async start(): Promise<void> {
    const { EGRESS_ENDPOINTS_FILE: file } = this.egress;
    if (file === undefined) return;
    await this.read(file);
    this.rounds = new Rounds({ clock: this.host.clock, everyMs: READ_EVERY_MS, work: () => this.read(file) });
    this.rounds.start();
  }

  async stop(): Promise<void> {
    void this.rounds?.stop();
  }

  /**
   * Adds origins to the file, from which other services read them within a second.
   * @returns them in canonical form
   * @throws ToolError REQUEST_INVALID for an invalid origin, and without a file
   */
  async allow(origins: readonly string[]): Promise<string[]> {
    const { EGRESS_ENDPOINTS_FILE: file, TOOLFLEET_LOCAL: isLocal } = this.egress;
    if (!isLocal)
      throw new ToolError('PERMISSION_DENIED', {
        message:
          'Only a fleet that npm start runs takes origins over its API; set EGRESS_ALLOWED_ENDPOINTS of its services',
      });
    if (file === undefined) throw new ToolError('REQUEST_INVALID', { message: 'EGRESS_ENDPOINTS_FILE is not set' });
    const canonical = [...new Set(origins.map(endpointOrigin))];
    const added = canonical.filter((origin) => !this.has(origin));
    if (added.length > 0) {
      const before = await readFile(file, 'utf8').catch(() => '');
      await appendFile(file, `${before === '' || before.endsWith('\n') ? '' : '\n'}${added.join('\n')}\n`);
      await this.read(file);
    }
    return canonical;
  }

  /** A file that cannot be read, or a line that is not an origin, is a fault and keeps the earlier origins. A missing file is an empty one. */
  private async read(file: string): Promise<void> {
    try {
      const text = await readFile(file, 'utf8').catch((error: NodeJS.ErrnoException) => {
        if (error.code === 'ENOENT') return '';
        throw error;
      });
      if (text === this.text && this.refusal === '') return;
      const lines = text.split('\n').map((line) => line.replace(/#.*/, '').trim());
      this.fromFile = new Set(lines.filter((line) => line !== '').map(endpointOrigin));
      this.text = text;
      this.refusal = '';
      this.host.faults.set(this.name, []);
      this.host.logger.info({ origins: [...this.fromFile] }, 'the file of allowed endpoints changed');
    } catch (error) {
      const reason = (error as Error).message;
      if (reason === this.refusal) return;
      this.refusal = reason;
      this.host.faults.set(this.name, [`EGRESS_ENDPOINTS_FILE is ignored: ${reason}`]);
      this.host.logger.warn({ file, reason }, 'the file of allowed endpoints is ignored');
    }
  }
}
