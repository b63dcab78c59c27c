import { runExecutor } from '@toolfleet/service/executor';
import { builtinExecutor } from './wiring.js';

await runExecutor(builtinExecutor);
