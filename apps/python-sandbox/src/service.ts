import { defineService } from '@toolfleet/service';
import { pythonSandboxConfig } from './python-sandbox.config.js';

// The rest is loaded once the configuration is checked, so that --help works on older versions of Node.
export default defineService(pythonSandboxConfig, async (settings, host) =>
  (await import('./wiring.js')).createComponents(settings, host),
);
