import { Controller } from '@nestjs/common';
import { ToolError, type JsonObject } from '@toolfleet/contracts';
import { MCP_REGISTER, type McpRegister, type McpRegisterReply } from '@toolfleet/contracts/registry';
import { SUBJECTS } from '@toolfleet/contracts/subjects';
import { Endpoint } from '@toolfleet/transport';
import { SourceStore } from '../source-store.js';
import { faultLine, readMcpEntry, type McpEntry } from '@toolfleet/fleet-file';
import { McpSource } from './mcp.source.js';
import { sealMcpSecrets, type SealFor } from './secrets.js';

/** Fields that start a process on the executor's machine. Only the configuration file may set them. */
const LOCAL_FIELDS = ['command', 'args', 'env', 'cwd', 'memory_limit_mb'] as const;

/** Injection token of the sealing function. */
export class McpSeal {
  constructor(readonly sealFor: SealFor) {}
}

/** `registry.mcp.register`; the gateway admits administrators only. */
@Controller()
export class McpEndpoint {
  constructor(
    private readonly source: McpSource,
    private readonly sources: SourceStore,
    private readonly sealing: McpSeal,
  ) {}

  @Endpoint(SUBJECTS.mcpRegister, { schema: MCP_REGISTER })
  async register(message: McpRegister): Promise<McpRegisterReply> {
    const name = this.sources.claim('mcp', message.name, message.tenant, message as unknown as JsonObject);
    const entry = this.toEntry(message);
    let stored: McpEntry;
    try {
      stored = sealMcpSecrets(entry, this.sealing.sealFor?.(name));
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      return {
        success: false,
        tool_name: message.name,
        message: `Registration error: ${reason}`,
        registered: [],
        quarantined: [],
      };
    }
    return this.source.add(stored, { kind: 'mcp', name, body: stored as unknown as JsonObject });
  }

  private toEntry({ name, tenant, ...fields }: McpRegister): McpEntry {
    const local = LOCAL_FIELDS.find((field) => field in fields);
    const entry = local
      ? [{ path: local, message: 'cannot be set: local servers are declared in the configuration file' }]
      : readMcpEntry(name, fields as unknown as JsonObject, false);
    if (Array.isArray(entry)) {
      const reason = entry.map(faultLine).join('; ');
      throw new ToolError('REQUEST_INVALID', { message: `The registration is invalid: ${reason}` });
    }
    return tenant === undefined ? entry : { ...entry, tenant };
  }
}
