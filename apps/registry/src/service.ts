import { defineService } from '@toolfleet/service';
import { registryConfig } from './registry.config.js';

// The rest is loaded once the configuration is checked, so that --help works on older versions of Node.
export default defineService(registryConfig, async (settings, host) =>
  (await import('./wiring.js')).registryComponents(settings, host),
);
