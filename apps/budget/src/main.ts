import { startService } from '@toolfleet/service';
import { budgetConfig } from './budget.config.js';
import { budgetComponents } from './wiring.js';

await startService(budgetConfig, budgetComponents);
