import { isToolError, toToolError } from '@toolfleet/contracts';
import type { DiscoverMessage, DiscoverReply } from '@toolfleet/contracts/execution';
import type { OpenApiValidate, OpenApiValidateReply } from '@toolfleet/contracts/registry';
import type { SourceInspection } from '@toolfleet/contracts/resources';
import type { EgressClient } from '@toolfleet/egress';

interface SourceInspectorDeps {
  validate(message: OpenApiValidate): Promise<OpenApiValidateReply>;
  /** `exec.mcp.discover`: only mcp-executor connects to MCP servers. */
  discover(message: DiscoverMessage, timeoutMs: number): Promise<DiscoverReply>;
  egress: Pick<EgressClient, 'check'>;
}

const DISCOVER_TIMEOUT_MS = 20_000;
const MAX_TOOLS = 200;
const NOTHING: SourceInspection = {
  ...{ kind: null, needs_credential: false, tools: [], tool_count: 0 },
  ...{ faults: [], notes: [], blocked: [] },
};

/** Inspects a URL or a document before it is registered, through the egress guard as a registration would. */
export class SourceInspector {
  constructor(private readonly deps: SourceInspectorDeps) {}

  async inspect({ url, document }: { url?: string; document?: string }): Promise<SourceInspection> {
    if (url === undefined) return this.#toInspection(await this.deps.validate({ spec_inline: document ?? '' }));
    if (this.#isBlocked(url)) return { ...NOTHING, blocked: [new URL(url).origin] };
    const report = await this.deps.validate({ spec_url: url });
    if (report.operations_count > 0) return this.#toInspection(report);
    return this.#askServer(url, report.errors);
  }

  /** @param asDocument its fault as a document */
  async #askServer(url: string, asDocument: readonly string[]): Promise<SourceInspection> {
    try {
      const message = { server: 'inspected', transport: 'streamable-http', url } as const;
      const { tools } = await this.deps.discover(message, DISCOVER_TIMEOUT_MS);
      const shown = tools.map(({ name, description }) => ({ name, description }));
      return { ...NOTHING, kind: 'mcp', tools: shown.slice(0, MAX_TOOLS), tool_count: tools.length };
    } catch (error) {
      const { message, facts } = toToolError(error);
      if (facts?.reason === 'auth_failed') return { ...NOTHING, kind: 'mcp', needs_credential: true };
      const faults = [...asDocument.map((fault) => `As a document: ${fault}`), `As an MCP server: ${message}`];
      const isBlocked = faults.some((fault) => fault.includes('egress guard'));
      return { ...NOTHING, faults, blocked: isBlocked ? [new URL(url).origin] : [] };
    }
  }

  #toInspection({
    operations,
    operations_count: count,
    base_url,
    errors,
    warnings = [],
  }: OpenApiValidateReply): SourceInspection {
    const tools = operations.map(({ operation_id: name, description }) => ({ name, description }));
    return {
      ...NOTHING,
      kind: count > 0 ? 'openapi' : null,
      tools: tools.slice(0, MAX_TOOLS),
      tool_count: count,
      faults: errors,
      notes: warnings,
      blocked: URL.canParse(base_url) && this.#isBlocked(base_url) ? [new URL(base_url).origin] : [],
    };
  }

  #isBlocked(url: string): boolean {
    try {
      this.deps.egress.check(url);
      return false;
    } catch (error) {
      if (!isToolError(error)) throw error;
      return true;
    }
  }
}
