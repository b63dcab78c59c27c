import { Module, type DynamicModule } from '@nestjs/common';
import { ExecutionGuard } from '@toolfleet/journal';
import { DiscoverEndpoint } from './discover.endpoint.js';
import { ExecuteEndpoint } from './execute.endpoint.js';
import { McpExecutor } from './mcp-executor.js';

/** The two NATS endpoints of the service. */
@Module({})
export class McpExecutorModule {
  static of(executor: McpExecutor, gate: ExecutionGuard): DynamicModule {
    return {
      module: McpExecutorModule,
      controllers: [ExecuteEndpoint, DiscoverEndpoint],
      providers: [
        { provide: McpExecutor, useValue: executor },
        { provide: ExecutionGuard, useValue: gate },
      ],
    };
  }
}
