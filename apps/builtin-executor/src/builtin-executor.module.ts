import { Module, type DynamicModule } from '@nestjs/common';
import { Toolbox } from '@toolfleet/builtin-tools';
import type { Toolset } from '@toolfleet/contracts';
import { EffectGate } from '@toolfleet/journal';
import { executeEndpoint } from './execute.endpoint.js';

/** The NATS doors of the toolsets served here; `agent` goes by queue. */
@Module({})
export class BuiltinExecutorModule {
  static of(toolsets: readonly Toolset[], toolbox: Toolbox, gate: EffectGate): DynamicModule {
    return {
      module: BuiltinExecutorModule,
      controllers: toolsets.filter((toolset) => toolset !== 'agent').map(executeEndpoint),
      providers: [
        { provide: Toolbox, useValue: toolbox },
        { provide: EffectGate, useValue: gate },
      ],
    };
  }
}
