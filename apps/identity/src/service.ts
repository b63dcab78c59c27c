import { defineService } from '@toolfleet/service';
import { identityConfig } from './identity.config.js';

// The rest is loaded once the configuration is checked, so that --help works on older versions of Node.
export default defineService(identityConfig, async (settings, host) =>
  (await import('./wiring.js')).identityComponents(settings, host),
);
