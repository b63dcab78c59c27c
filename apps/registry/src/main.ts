import { startService } from '@toolfleet/service';
import { registryComponents } from './wiring.js';
import { registryConfig } from './registry.config.js';

await startService(registryConfig, registryComponents);
