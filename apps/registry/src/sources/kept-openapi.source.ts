import type { JsonObject, OpenApiRegister, OpenApiRegisterReply } from '@toolfleet/contracts';
import { isToolError } from '@toolfleet/contracts';
import type { Registrations } from '../registrations.js';
import { storableSecrets, type Seal } from './openapi-secrets.js';
import { OpenApiSource } from './openapi.source.js';

/** Seals for one collection; undefined when `REGISTRY_SECRET_KEY` is not set. */
export type SealFor = ((collection: string) => Exclude<Seal, undefined>) | undefined;

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
    const sealed = this.sealed(message);
    return super.add(sealed, { kind: 'openapi', name, body: sealed as unknown as JsonObject });
  }

  /** Literals that cannot be sealed are left as they are: registering them is refused by the source itself, by name. */
  private sealed(message: OpenApiRegister): OpenApiRegister {
    try {
      return { ...message, ...storableSecrets(message, this.sealFor?.(message.name)) };
    } catch (error) {
      if (isToolError(error)) return message;
      throw error;
    }
  }
}
