import { runExecutor } from '@toolfleet/service/executor';
import { openApiExecutor } from './wiring.js';

await runExecutor(openApiExecutor);
