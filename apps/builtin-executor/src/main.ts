import { startService } from '@toolfleet/service';
import { builtinExecutorConfig } from './builtin-executor.config.js';

// The rest is loaded once the configuration is checked, so that --help works on older versions of Node.
await startService(builtinExecutorConfig, async (settings, host) => {
  const { buildExecutor } = await import('@toolfleet/service/executor');
  return buildExecutor((await import('./wiring.js')).builtinExecutor, settings, host);
});
