import { Module, type DynamicModule } from '@nestjs/common';
import { ExecuteEndpoint } from './execute.endpoint.js';
import { OpenApiExecutor } from './openapi-executor.js';

/** The NATS endpoint of the service. */
@Module({})
export class OpenApiExecutorModule {
  static of(executor: OpenApiExecutor): DynamicModule {
    return {
      module: OpenApiExecutorModule,
      controllers: [ExecuteEndpoint],
      providers: [{ provide: OpenApiExecutor, useValue: executor }],
    };
  }
}
