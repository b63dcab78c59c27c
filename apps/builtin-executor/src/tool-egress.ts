import { EgressClient } from '@toolfleet/egress';
import { VERSION, type ServiceHost } from '@toolfleet/service';
import { inUpstreamSpan } from '@toolfleet/telemetry';
import type { BuiltinExecutorConfig } from './builtin-executor.config.js';

/** The ways out of this process, one per purpose: a page reader cannot reach the model's API, nor the other way round. */
export class ToolEgress {
  private readonly clients: EgressClient[] = [];

  constructor(
    private readonly settings: BuiltinExecutorConfig,
    private readonly host: ServiceHost,
  ) {}

  /** For pages the model names: the allowlist of the web tools. */
  pages(): EgressClient {
    if (this.settings.WEB_ALLOWED_DOMAINS.includes('*'))
      this.host.logger.warn('WEB_ALLOWED_DOMAINS=* lets tools read every public host');
    return this.client(this.settings.WEB_ALLOWED_DOMAINS, this.settings.EGRESS_ALLOWED_ENDPOINTS);
  }

  /** For one server the operator named, wherever it is: a search API, a model, a bucket. */
  server(address: string): EgressClient {
    return this.client([], [new URL(address).origin]);
  }

  async close(): Promise<void> {
    await Promise.all(this.clients.map((client) => client.close()));
  }

  private client(allowlist: readonly string[], allowedEndpoints: readonly string[]): EgressClient {
    const client = new EgressClient({
      trace: inUpstreamSpan,
      allowlist,
      allowAnyHost: this.settings.EGRESS_ALLOW_ANY_HOST,
      allowedEndpoints,
      deniedCidrs: this.settings.EGRESS_DENIED_CIDRS,
      clock: this.host.clock,
      onBlocked: (layer, reason) => this.host.metrics.egressBlocked.inc({ layer, reason }),
      userAgent: `toolfleet/${VERSION}`,
    });
    this.clients.push(client);
    return client;
  }
}
