import { startService } from '@toolfleet/service';
import { gatewayConfig } from './gateway.config.js';
import { gatewayParts } from './parts.js';

await startService(gatewayConfig, gatewayParts);
