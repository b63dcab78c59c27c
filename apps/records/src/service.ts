import { defineService } from '@toolfleet/service';
import { recordsConfig } from './records.config.js';

// The rest is loaded once the configuration is checked, so that --help works on older versions of Node.
export default defineService(recordsConfig, async (settings, host) =>
  (await import('./wiring.js')).recordsComponents(settings, host),
);
