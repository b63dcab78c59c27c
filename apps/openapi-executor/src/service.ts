import { defineService } from '@toolfleet/service';
import { openapiExecutorConfig } from './openapi-executor.config.js';

// The rest is loaded once the configuration is checked, so that --help works on older versions of Node.
export default defineService(openapiExecutorConfig, async (settings, host) => {
  const { buildExecutor } = await import('@toolfleet/service/executor');
  return buildExecutor((await import('./wiring.js')).openApiExecutor, settings, host);
});
