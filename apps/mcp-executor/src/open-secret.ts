import { ToolError } from '@toolfleet/contracts';
import { isSealed, olderSecretContext, secretContext, SecretBox, VariableExpander } from '@toolfleet/service';
import { registerSecret } from '@toolfleet/telemetry';
import { mcpExecutorConfig } from './mcp-executor.config.js';

/**
 * Expands a configured value: `${VAR}` from the environment, and literals that the registry sealed for a registration (`crm` or
 * `crm@acme`; undefined in definitions of version 0.1.0). Opened values are registered for redaction.
 * @throws ToolError AUTH_NOT_CONFIGURED
 */
export type OpenSecret = (value: string, registration: string | undefined) => string;

/**
 * Builds the function that expands values right before a request, so that rotated variables take effect.
 * @param secretKey `REGISTRY_SECRET_KEY`; without it sealed values cannot be opened
 */
export function secretOpener(secretKey: string | undefined): OpenSecret {
  const expander = new VariableExpander(mcpExecutorConfig.ownKeys);
  const box = secretKey === undefined ? undefined : new SecretBox(secretKey);
  return (value, registration) => {
    if (!isSealed(value)) return expander.expand(value);
    if (!box) throw missing('a secret is sealed, but REGISTRY_SECRET_KEY is not set for mcp-executor');
    try {
      const context = registration === undefined ? olderSecretContext('mcp', '') : secretContext('mcp', registration);
      const opened = box.open(value, context);
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
