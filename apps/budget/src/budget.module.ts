import { Module, type DynamicModule } from '@nestjs/common';
import { Budget } from './budget.js';
import { BudgetEndpoint, StoreTimeout } from './budget.endpoint.js';

/** The Nest side of the service: one endpoint over the budget that `main` wires. */
@Module({})
export class BudgetModule {
  static with(budget: Budget, storeTimeoutMs: number): DynamicModule {
    return {
      module: BudgetModule,
      controllers: [BudgetEndpoint],
      providers: [
        { provide: Budget, useValue: budget },
        { provide: StoreTimeout, useValue: new StoreTimeout(storeTimeoutMs) },
      ],
    };
  }
}
