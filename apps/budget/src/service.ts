import { defineService } from '@toolfleet/service';
import { budgetConfig } from './budget.config.js';

// The rest is loaded once the configuration is checked, so that --help works on older versions of Node.
export default defineService(budgetConfig, async (settings, host) =>
  (await import('./wiring.js')).budgetComponents(settings, host),
);
