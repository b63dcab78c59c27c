import { Controller } from '@nestjs/common';
import type { JsonObject } from '@toolfleet/contracts';
import type {
  OpenApiRegister,
  OpenApiRegisterReply,
  OpenApiValidate,
  OpenApiValidateReply,
} from '@toolfleet/contracts/registry';
import { SUBJECTS } from '@toolfleet/contracts/subjects';
import { validateMessage } from '@toolfleet/schema';
import { Endpoint } from '@toolfleet/transport';
import { OpenApiSource } from './openapi.source.js';

const text: JsonObject = { type: 'string', minLength: 1, maxLength: 4_096 };
const readRegister = validateMessage<OpenApiRegister>({
  type: 'object',
  properties: { name: text },
  required: ['name'],
});
const readValidate = validateMessage<OpenApiValidate>({ type: 'object' });

/** `registry.openapi.register` and `registry.openapi.validate`; the gateway lets administrators through only. */
@Controller()
export class OpenApiEndpoint {
  constructor(private readonly source: OpenApiSource) {}

  @Endpoint(SUBJECTS.openapiRegister)
  register(body: unknown): Promise<OpenApiRegisterReply> {
    return this.source.add(readRegister(body));
  }

  @Endpoint(SUBJECTS.openapiValidate)
  validate(body: unknown): Promise<OpenApiValidateReply> {
    return this.source.validate(readValidate(body));
  }
}
