import { Module, type DynamicModule } from '@nestjs/common';
import { ToolRunner } from '@toolfleet/builtin-tools';
import type { Toolset } from '@toolfleet/contracts/tool-definition';
import { ExecutionGuard } from '@toolfleet/journal';
import { executeEndpoint } from './execute.endpoint.js';

/** The NATS doors of the toolsets served here; `agent` goes by queue. */
@Module({})
export class BuiltinExecutorModule {
  static of(toolsets: readonly Toolset[], toolbox: ToolRunner, gate: ExecutionGuard): DynamicModule {
    return {
      module: BuiltinExecutorModule,
      controllers: toolsets.filter((toolset) => toolset !== 'agent').map(executeEndpoint),
      providers: [
        { provide: ToolRunner, useValue: toolbox },
        { provide: ExecutionGuard, useValue: gate },
      ],
    };
  }
}
