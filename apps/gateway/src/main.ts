import { startService } from '@toolfleet/service';
import { gatewayConfig } from './gateway.config.js';
import { wireGateway } from './wiring.js';

await startService(gatewayConfig, wireGateway);
