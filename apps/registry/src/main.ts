import { startService } from '@toolfleet/service';
import { registryParts } from './parts.js';
import { registryConfig } from './registry.config.js';

await startService(registryConfig, registryParts);
