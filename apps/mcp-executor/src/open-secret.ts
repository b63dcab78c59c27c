import { ToolError } from '@toolfleet/contracts';
import { isSealed, olderSecretContext, secretContext, SecretBox, VariableExpander } from '@toolfleet/service';
import { registerSecret } from '@toolfleet/telemetry';
import { mcpExecutorConfig } from './mcp-executor.config.js';

/**
 * Expands a configured value of a registration (`crm` or `crm@acme`). Definitions of version 0.1.0 name none.
 * @throws ToolError AUTH_NOT_CONFIGURED
 */
export type OpenSecret = (value: string, registration: string | undefined) => string;

const contextOf = (registration: string | undefined): string =>
  registration === undefined ? olderSecretContext('mcp', '') : secretContext('mcp', registration);

/**
 * Opens configured values right before a server is dialled: `${VAR}` from the environment, and literals the registry sealed.
 * What was opened is registered for redaction. The function throws ToolError AUTH_NOT_CONFIGURED naming what is missing.
 */
export function secretOpener(secretKey: string | undefined): OpenSecret {
  const expander = new VariableExpander(mcpExecutorConfig.ownKeys);
  const box = secretKey === undefined ? undefined : new SecretBox(secretKey);
  return (value, registration) => {
    if (!isSealed(value)) return expander.expand(value);
    if (!box) throw missing('a secret is sealed and REGISTRY_SECRET_KEY is not set here');
    try {
      const opened = box.open(value, contextOf(registration));
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
