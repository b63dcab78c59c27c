import type { Principal } from '@toolfleet/contracts';
import type { GuardedRequest } from './auth.guard.js';
import type { Authenticate } from './authenticate.js';
import { callerOfRequest } from './caller-of-request.js';

/** Proves the credential of a request again, for answers that stay open longer than a revocation may take. */
export class CallerProof {
  constructor(private readonly authenticate: Authenticate) {}

  /** @throws ToolError UNAUTHENTICATED once the credential is revoked or expired */
  of(request: GuardedRequest): Promise<Principal> {
    return callerOfRequest(this.authenticate, request.raw.rawHeaders);
  }
}
