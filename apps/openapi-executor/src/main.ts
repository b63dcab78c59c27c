import { startService } from '@toolfleet/service';
import { buildParts } from './build-parts.js';
import { openapiExecutorConfig } from './openapi-executor.config.js';

await startService(openapiExecutorConfig, buildParts);
