import { runExecutor } from '@toolfleet/service/executor';
import { mcpExecutor } from './wiring.js';

await runExecutor(mcpExecutor);
