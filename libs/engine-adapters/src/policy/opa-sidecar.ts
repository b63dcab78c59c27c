import { EgressClient } from '@toolfleet/egress';
import {
  OPA_PATHS,
  opaDecision,
  opaRequestBody,
  PolicyEngine,
  type OpaResponse,
  type PolicyDecision,
  type PolicyInput,
} from '@toolfleet/policy';
import type { Clock } from '@toolfleet/resilience';

interface OpaSettings {
  /** Base address such as `http://127.0.0.1:8181`; the only address that this client may reach. */
  url: string;
  /** Longest wait for a decision in ms; a late one is a denial. */
  timeoutMs: number;
}

const MAX_ANSWER_BYTES = 256 * 1024;

/** Asks an OPA server for decisions. Every failure to get one is a denial. */
export class OpaSidecar extends PolicyEngine {
  private readonly client: EgressClient;
  private readonly urls: { deny: string; ask: string };

  constructor(
    private readonly settings: OpaSettings,
    clock: Clock,
  ) {
    super();
    const base = new URL(settings.url);
    const at = (path: string): string => new URL(base.pathname.replace(/\/+$/, '') + path, base).href;
    this.urls = { deny: at(OPA_PATHS.deny), ask: at(OPA_PATHS.ask) };
    this.client = new EgressClient({ allowlist: [], allowedEndpoints: [base.origin], clock });
  }

  override async decide(input: PolicyInput): Promise<PolicyDecision> {
    const question = opaRequestBody(input);
    try {
      const { deny, ask } = this.urls;
      const [denies, asks] = await Promise.all([this.answerAt(deny, question), this.answerAt(ask, question)]);
      return opaDecision(denies, asks);
    } catch {
      // The cause may name internal addresses, so the caller learns only that there is no decision.
      return { deny: ['the policy could not be evaluated: OPA did not answer'] };
    }
  }

  /** Whether the server is healthy; for readiness. */
  async reachable(): Promise<boolean> {
    try {
      const { status, body } = await this.client.request({
        url: new URL('/health', this.urls.deny).href,
        followRedirects: false,
      });
      await body.text();
      return status === 200;
    } catch {
      return false;
    }
  }

  private async answerAt(url: string, question: string): Promise<OpaResponse> {
    const { timeoutMs } = this.settings;
    const response = await this.client.request({
      url,
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: question,
      followRedirects: false,
      maxBytes: MAX_ANSWER_BYTES,
      timeouts: { headersMs: timeoutMs, bodyIdleMs: timeoutMs, totalMs: timeoutMs },
    });
    return { status: response.status, body: JSON.parse(await response.body.text()) };
  }

  async close(): Promise<void> {
    await this.client.close();
  }
}
