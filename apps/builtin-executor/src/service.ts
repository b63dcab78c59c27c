import { defineService } from '@toolfleet/service';
import { builtinExecutorConfig } from './builtin-executor.config.js';

// The rest is loaded once the configuration is checked, so that --help works on older versions of Node.
export default defineService(builtinExecutorConfig, async (settings, host) => {
  const { buildExecutor } = await import('@toolfleet/service/executor');
  return buildExecutor((await import('./wiring.js')).builtinExecutor, settings, host);
});
