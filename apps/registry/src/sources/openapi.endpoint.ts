import { Controller } from '@nestjs/common';
import { isToolError, type JsonObject } from '@toolfleet/contracts';
import {
  OPENAPI_REGISTER,
  OPENAPI_VALIDATE,
  type OpenApiRegister,
  type OpenApiRegisterReply,
  type OpenApiValidate,
  type OpenApiValidateReply,
} from '@toolfleet/contracts/registry';
import { SUBJECTS } from '@toolfleet/contracts/subjects';
import { Endpoint } from '@toolfleet/transport';
import { SourceStore } from '../source-store.js';
import { OpenApiSource } from './openapi.source.js';
import { sealOpenApiSecrets, type SealFor } from './secrets.js';

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

  @Endpoint(SUBJECTS.openapiRegister, { schema: OPENAPI_REGISTER })
  async register(message: OpenApiRegister): Promise<OpenApiRegisterReply> {
    const name = this.sources.claim('openapi', message.name, message.tenant, message as unknown as JsonObject);
    const sealed = this.seal(message, name);
    return this.source.add(sealed, { kind: 'openapi', name, body: sealed as unknown as JsonObject });
  }

  @Endpoint(SUBJECTS.openapiValidate, { schema: OPENAPI_VALIDATE })
  validate(message: OpenApiValidate): Promise<OpenApiValidateReply> {
    return this.source.validate(message);
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
