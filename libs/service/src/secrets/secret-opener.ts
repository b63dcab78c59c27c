import { ToolError } from '@toolfleet/contracts';
import { registerSecret } from '@toolfleet/telemetry';
import type { VariableExpander } from '../config/expand-variables.js';
import { isSealed, secretContext, SecretBox } from './secret-box.js';

/**
 * Resolves a configured value: `${VAR}` from the environment, and literals that the registry sealed for a registration (`crm` or
 * `crm@acme`; undefined where the registration is not known, for which nothing opens). Opened values are registered for redaction.
 * @throws ToolError AUTH_NOT_CONFIGURED naming what is missing, never the secret
 */
export type OpenSecret = (value: string, registration: string | undefined) => string;

/** The keys with which an executor opens secrets. */
interface SecretOpenerOptions {
  /** Kind of the registrations with the secrets that it opens. */
  kind: 'mcp' | 'openapi';
  expander: Pick<VariableExpander, 'expand'>;
  /** `REGISTRY_SECRET_KEY`; without it sealed values cannot be opened. */
  secretKey: string | undefined;
}

/** Builds the function that resolves values right before a request, so that rotated variables take effect. */
export function secretOpener({ kind, expander, secretKey }: SecretOpenerOptions): OpenSecret {
  const box = secretKey === undefined ? undefined : new SecretBox(secretKey);
  return (value, registration) => {
    if (!isSealed(value)) return expander.expand(value);
    const what = registration === undefined ? 'a secret' : `a secret of ${registration}`;
    if (!box) throw missing(`${what} is sealed, but REGISTRY_SECRET_KEY is not set for this executor`);
    try {
      const opened = box.open(value, secretContext(kind, registration ?? ''));
      registerSecret(opened);
      return opened;
    } catch (cause) {
      throw missing(`${what} is sealed and cannot be opened with this REGISTRY_SECRET_KEY`, cause);
    }
  };
}

function missing(reason: string, cause?: unknown): ToolError {
  return new ToolError('AUTH_NOT_CONFIGURED', { message: `AUTH_NOT_CONFIGURED: ${reason}`, cause });
}
