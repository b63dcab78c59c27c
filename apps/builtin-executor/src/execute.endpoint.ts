import { Controller, type Type } from '@nestjs/common';
import { ToolRunner } from '@toolfleet/builtin-tools';
import type { ExecMessage, ExecResponse } from '@toolfleet/contracts/execution';
import { builtinSubject } from '@toolfleet/contracts/subjects';
import type { Toolset } from '@toolfleet/contracts/tool-definition';
import { ExecutionGuard } from '@toolfleet/journal';
import { Endpoint, type EndpointContext } from '@toolfleet/transport';

/**
 * The door of one toolset: `exec.builtin.<toolset>`. A class per toolset, because a process subscribes to the toolsets it
 * serves and to no others.
 */
export function executeEndpoint(toolset: Toolset): Type {
  @Controller()
  class ExecuteEndpoint {
    constructor(
      private readonly toolbox: ToolRunner,
      private readonly gate: ExecutionGuard,
    ) {}

    @Endpoint(builtinSubject(toolset), { exec: true })
    async execute(message: ExecMessage, context: EndpointContext): Promise<ExecResponse> {
      return this.gate.run(message, async (begin) => {
        await begin();
        const { signal, deadlineAt, progress } = context;
        return this.toolbox.run(message, { signal, deadlineAt, ...(progress ? { progress } : {}) });
      });
    }
  }
  return ExecuteEndpoint;
}
