import { startService } from '@toolfleet/service';
import { buildParts } from './build-parts.js';
import { builtinExecutorConfig } from './builtin-executor.config.js';

await startService(builtinExecutorConfig, buildParts);
