import { defineService } from '@toolfleet/service';
import { gatewayConfig } from './gateway.config.js';

// The rest is loaded once the configuration is checked, so that --help works on older versions of Node.
export default defineService(gatewayConfig, async (settings, host) =>
  (await import('./wiring/wire-gateway.js')).wireGateway(settings, host),
);
