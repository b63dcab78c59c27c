import type { ExecResponse } from '@toolfleet/contracts/execution';
import { holdsSecret, redact } from '@toolfleet/telemetry';

/**
 * A reply without our credentials: a server that echoes its request (debug endpoints do, attackers do) must not hand them to
 * the caller. Replies that hold none, nearly all, come back as they are.
 */
export function redactSecrets(reply: ExecResponse): ExecResponse {
  const json = JSON.stringify(reply);
  return holdsSecret(json) ? (JSON.parse(redact(json)) as ExecResponse) : reply;
}
