import { Controller } from '@nestjs/common';
import type { ExecMessage, ExecResponse } from '@toolfleet/contracts/execution';
import { HEADERS, SUBJECTS } from '@toolfleet/contracts/subjects';
import { ExecutionGuard } from '@toolfleet/journal';
import { Endpoint, type EndpointContext } from '@toolfleet/transport';
import { McpExecutor } from './mcp-executor.js';

/** `exec.mcp`: one attempt at a remote tool. */
@Controller()
export class ExecuteEndpoint {
  constructor(
    private readonly executor: McpExecutor,
    private readonly gate: ExecutionGuard,
  ) {}

  @Endpoint(SUBJECTS.execMcp, { exec: true })
  async execute(message: ExecMessage, context: EndpointContext): Promise<ExecResponse> {
    const { progress } = context;
    const traceparent = context.headers.get(HEADERS.traceparent);
    return this.gate.run(message, (begin) =>
      this.executor.execute(message, {
        remainingMs: context.timeLeftMs,
        signal: context.signal,
        beforeEffect: begin,
        ...(progress ? { onProgress: progress } : {}),
        ...(traceparent ? { traceparent } : {}),
      }),
    );
  }
}
