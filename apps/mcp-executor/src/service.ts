import { defineService } from '@toolfleet/service';
import { mcpExecutorConfig } from './mcp-executor.config.js';

// The rest is loaded once the configuration is checked, so that --help works on older versions of Node.
export default defineService(mcpExecutorConfig, async (settings, host) => {
  const { buildExecutor } = await import('@toolfleet/service/executor');
  return buildExecutor((await import('./wiring.js')).mcpExecutor, settings, host);
});
