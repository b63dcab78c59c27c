import { Controller } from '@nestjs/common';
import type { ExecMessage, ExecResponse } from '@toolfleet/contracts/execution';
import { SUBJECTS } from '@toolfleet/contracts/subjects';
import { Endpoint, type EndpointContext } from '@toolfleet/transport';
import { OpenApiExecutor } from './openapi-executor.js';

/** `exec.openapi`: one attempt at an operation. */
@Controller()
export class ExecuteEndpoint {
  constructor(private readonly executor: OpenApiExecutor) {}

  @Endpoint(SUBJECTS.execOpenapi, { exec: true })
  execute(message: ExecMessage, context: EndpointContext): Promise<ExecResponse> {
    return this.executor.execute(message, { remainingMs: context.timeLeftMs, signal: context.signal });
  }
}
