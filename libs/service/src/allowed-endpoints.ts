import { appendFileSync, readFileSync } from 'node:fs';
import { invalidRequest, ToolError } from '@toolfleet/contracts';
import { adviseRefusals, endpointOrigin } from '@toolfleet/egress/rules';
import type { EGRESS_KEYS, SettingsOf } from './config/define-config.js';
import type { LifecycleComponent, ServiceHost } from './lifecycle.js';

adviseRefusals(
  'to allow this origin, the operator adds it to EGRESS_ALLOWED_ENDPOINTS or, without a restart, to the file of EGRESS_ENDPOINTS_FILE (npm start: .toolfleet/allowed-endpoints)',
);

/**
 * The origins that skip the egress guard: in `EGRESS_ALLOWED_ENDPOINTS`, and the lines of the file
 * `EGRESS_ENDPOINTS_FILE`, so that a developer can allow a server without a restart. Each use reads the small
 * file, so a change counts for all services at once: what the registry has read, an executor calls a moment later.
 */
export class AllowedEndpoints implements LifecycleComponent {
  readonly name = 'allowed endpoints';
  private readonly fixed: ReadonlySet<string>;
  private fromFile: ReadonlySet<string> = new Set();
  private text = '';
  /** Why the file is ignored; empty while it is valid. */
  private refusal = '';

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
    if (this.fixed.has(origin)) return true;
    this.read();
    return this.fromFile.has(origin);
  }

  start(): void {
    this.read();
  }

  /**
   * Adds origins to the file, where other services find them.
   * @returns them in canonical form
   * @throws ToolError REQUEST_INVALID for an invalid origin, and without a file
   */
  allow(origins: readonly string[]): string[] {
    const { EGRESS_ENDPOINTS_FILE: file, TOOLFLEET_LOCAL: isLocal } = this.egress;
    if (!isLocal)
      throw new ToolError('PERMISSION_DENIED', {
        message:
          'Only a fleet that npm start runs takes origins over its API; set EGRESS_ALLOWED_ENDPOINTS of its services',
      });
    if (file === undefined) throw invalidRequest('EGRESS_ENDPOINTS_FILE is not set');
    const canonical = [...new Set(origins.map(endpointOrigin))];
    const added = canonical.filter((origin) => !this.has(origin));
    if (added.length > 0) {
      const before = contentOf(file);
      appendFileSync(file, `${before === '' || before.endsWith('\n') ? '' : '\n'}${added.join('\n')}\n`);
    }
    return canonical;
  }

  /** A file that cannot be read, or a line that is not an origin, is a fault and keeps the earlier origins. A missing file is an empty one. */
  private read(): void {
    const { EGRESS_ENDPOINTS_FILE: file } = this.egress;
    if (file === undefined) return;
    try {
      const text = contentOf(file);
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

/** @returns '' for a missing file */
function contentOf(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return '';
    throw error;
  }
}
