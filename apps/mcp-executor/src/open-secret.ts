import { ToolError } from '@toolfleet/contracts';
import { isSealed, MCP_SECRET_CONTEXT, SecretBox, VariableExpander } from '@toolfleet/service';
import { registerSecret } from '@toolfleet/telemetry';
import { mcpExecutorConfig } from './mcp-executor.config.js';

/**
 * Opens configured values right before a server is dialled: `${VAR}` from the environment, and literals the registry sealed.
 * What was opened is registered for redaction. The function throws ToolError AUTH_NOT_CONFIGURED naming what is missing.
 */
export function secretOpener(secretKey: string | undefined): (value: string) => string {
  const expander = new VariableExpander(mcpExecutorConfig.ownKeys);
  const box = secretKey === undefined ? undefined : new SecretBox(secretKey);
  return (value) => {
    if (!isSealed(value)) return expander.expand(value);
    if (!box) throw missing('a secret is sealed and REGISTRY_SECRET_KEY is not set here');
    try {
      const opened = box.open(value, MCP_SECRET_CONTEXT);
      registerSecret(opened);
      return opened;
    } catch (cause) {
      throw missing('a sealed secret cannot be opened with this REGISTRY_SECRET_KEY', cause);
    }
  };
}

function missing(reason: string, cause?: unknown): ToolError {
  return new ToolError('AUTH_NOT_CONFIGURED', { message: `AUTH_NOT_CONFIGURED: ${reason}`, cause });
}
