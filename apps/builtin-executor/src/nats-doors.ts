import { NestFactory } from '@nestjs/core';
import type { INestMicroservice } from '@nestjs/common';
import type { Toolbox } from '@toolfleet/builtin-tools';
import type { Toolset } from '@toolfleet/contracts';
import type { ServicePart } from '@toolfleet/service';
import { NatsStrategy, type NatsStrategyOptions } from '@toolfleet/transport';
import { BuiltinExecutorModule } from './builtin-executor.module.js';
import type { EffectGate } from './effect-gate.js';

/** Serves the toolsets over NATS; drains the calls in work before it stops. */
export class NatsDoors implements ServicePart {
  readonly name = 'nats doors';
  private app: INestMicroservice | undefined;
  private strategy: NatsStrategy | undefined;

  constructor(
    private readonly options: NatsStrategyOptions,
    private readonly toolsets: readonly Toolset[],
    private readonly toolbox: Toolbox,
    private readonly gate: EffectGate,
  ) {}

  async start(): Promise<void> {
    const strategy = new NatsStrategy(this.options);
    const module = BuiltinExecutorModule.of(this.toolsets, this.toolbox, this.gate);
    const app = await NestFactory.createMicroservice(module, { strategy, logger: false, abortOnError: false });
    await app.listen();
    this.strategy = strategy;
    this.app = app;
  }

  ready(): boolean {
    return this.strategy !== undefined;
  }

  async drain(): Promise<void> {
    await this.strategy?.drain();
  }

  async stop(): Promise<void> {
    await this.app?.close();
  }
}
