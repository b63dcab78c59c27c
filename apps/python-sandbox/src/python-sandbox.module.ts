import { type DynamicModule, Module } from '@nestjs/common';
import { Clock } from '@toolfleet/resilience';
import { PythonWorker } from './python.worker.js';
import { RunLimits } from './run-arguments.js';
import { Sandbox } from './sandbox.js';
import { SessionStore } from './session-store.js';

/** The one worker of the service and the ports it needs. */
@Module({})
export class PythonSandboxModule {
  static of(sandbox: Sandbox, sessions: SessionStore, limits: RunLimits, clock: Clock): DynamicModule {
    return {
      module: PythonSandboxModule,
      providers: [
        PythonWorker,
        { provide: Sandbox, useValue: sandbox },
        { provide: SessionStore, useValue: sessions },
        { provide: RunLimits, useValue: limits },
        { provide: Clock, useValue: clock },
      ],
    };
  }
}
