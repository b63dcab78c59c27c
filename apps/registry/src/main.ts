import { holdYoungGeneration, startService } from '@toolfleet/service';
import { registryComponents } from './wiring.js';
import { registryConfig } from './registry.config.js';

holdYoungGeneration();
await startService(registryConfig, registryComponents);
