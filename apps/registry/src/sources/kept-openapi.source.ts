import type { JsonObject } from '@toolfleet/contracts';
import type { OpenApiRegister, OpenApiRegisterReply } from '@toolfleet/contracts/registry';
import { isToolError } from '@toolfleet/contracts';
import type { Registrations } from '../registrations.js';
import { storableSecrets, type SealFor } from './openapi-secrets.js';
import { OpenApiSource } from './openapi.source.js';

/** The OpenAPI source whose registrations survive restarts. */
export class KeptOpenApiSource extends OpenApiSource {
  constructor(
    private readonly registrations: Registrations,
    private readonly sealFor: SealFor,
    ...source: ConstructorParameters<typeof OpenApiSource>
  ) {
    super(...source);
  }

  override async add(message: OpenApiRegister): Promise<OpenApiRegisterReply> {
    const body = message as unknown as JsonObject;
    const name = this.registrations.claim('openapi', message.name, message.tenant, body);
    const sealed = this.sealed(message, name);
    return super.add(sealed, { kind: 'openapi', name, body: sealed as unknown as JsonObject });
  }

  /** Literals that cannot be sealed are left as they are: registering them is refused by the source itself, by name. */
  private sealed(message: OpenApiRegister, source: string): OpenApiRegister {
    try {
      return { ...message, ...storableSecrets(message, this.sealFor?.(source)) };
    } catch (error) {
      if (isToolError(error)) return message;
      throw error;
    }
  }
}
