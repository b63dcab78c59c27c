import { startService } from '@toolfleet/service';
import { buildParts } from './build-parts.js';
import { mcpExecutorConfig } from './mcp-executor.config.js';

await startService(mcpExecutorConfig, buildParts);
