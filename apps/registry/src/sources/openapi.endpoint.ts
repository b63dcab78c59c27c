import { Controller } from '@nestjs/common';
import { isToolError, type JsonObject } from '@toolfleet/contracts';
import type {
  OpenApiRegister,
  OpenApiRegisterReply,
  OpenApiValidate,
  OpenApiValidateReply,
} from '@toolfleet/contracts/registry';
import { SUBJECTS } from '@toolfleet/contracts/subjects';
import { validateMessage } from '@toolfleet/schema';
import { Endpoint } from '@toolfleet/transport';
import { SourceStore } from '../source-store.js';
import { OpenApiSource } from './openapi.source.js';
import { sealOpenApiSecrets, type SealFor } from './secrets.js';

const text: JsonObject = { type: 'string', minLength: 1, maxLength: 4_096 };
const readRegister = validateMessage<OpenApiRegister>({
  type: 'object',
  properties: { name: text },
  required: ['name'],
});
const readValidate = validateMessage<OpenApiValidate>({ type: 'object' });

/** Injection token of the sealing function. */
export class OpenApiSeal {
  constructor(readonly sealFor: SealFor) {}
}

/** `registry.openapi.register` and `registry.openapi.validate`; the gateway admits administrators only. */
@Controller()
export class OpenApiEndpoint {
  constructor(
    private readonly source: OpenApiSource,
    private readonly sources: SourceStore,
    private readonly sealing: OpenApiSeal,
  ) {}

  @Endpoint(SUBJECTS.openapiRegister)
  async register(body: unknown): Promise<OpenApiRegisterReply> {
    const message = readRegister(body);
    const name = this.sources.claim('openapi', message.name, message.tenant, message as unknown as JsonObject);
    const sealed = this.seal(message, name);
    return this.source.add(sealed, { kind: 'openapi', name, body: sealed as unknown as JsonObject });
  }

  @Endpoint(SUBJECTS.openapiValidate)
  validate(body: unknown): Promise<OpenApiValidateReply> {
    return this.source.validate(readValidate(body));
  }

  /** A literal that cannot be sealed stays in the message: the source refuses it and names the field in its reply. */
  private seal(message: OpenApiRegister, source: string): OpenApiRegister {
    try {
      return { ...message, ...sealOpenApiSecrets(message, this.sealing.sealFor?.(source)) };
    } catch (error) {
      if (isToolError(error)) return message;
      throw error;
    }
  }
}
