import { startService } from '@toolfleet/service';
import { budgetConfig } from './budget.config.js';
import { budgetParts } from './parts.js';

await startService(budgetConfig, budgetParts);
